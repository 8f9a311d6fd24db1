//! One packet on its way.

/// The packet acknowledges; otherwise it carries data.
pub(crate) const ACK: u8 = 1;
/// Congestion experienced: a switch marked it (RFC 3168).
pub(crate) const CE: u8 = 2;
/// The receiver has seen marks (RFC 3168, RFC 8257).
pub(crate) const ECE: u8 = 4;
/// The data was sent before.
pub(crate) const AGAIN: u8 = 8;
/// The receiver of RDMA misses something before what has come.
pub(crate) const NAK: u8 = 16;
/// A report of congestion (DCQCN), and no acknowledgement.
pub(crate) const CNP: u8 = 32;

/// The sender has shrunk its window because of marks (RFC 3168).
pub(crate) const CWR: u8 = 64;

/// No selective acknowledgements.
pub(crate) const NO_SACK: u32 = u32::MAX;

/// A packet. Its payload is `wire` without the headers of the network.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Packet {
    /// Data: first byte of the stream. ACK: next byte that the receiver expects.
    pub seq: u64,
    /// The connection.
    pub connection: u32,
    /// Where in the table of routes its next link stands, if it has a route of its own.
    pub route: u32,
    /// The link by which it came to where it is.
    pub via: u32,
    /// ACK: its selective acknowledgements, or [`NO_SACK`].
    pub sack: u32,
    /// Bytes on a link, headers and framing included.
    pub wire: u16,
    pub flags: u8,
    /// Priority of the packet: packets of a lower class leave first.
    pub class: u8,
}

impl Packet {
    #[inline]
    pub(crate) fn is(&self, flag: u8) -> bool {
        self.flags & flag != 0
    }
}
