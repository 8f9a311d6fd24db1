// TCP of a node with a table of its connections.
//
// ns-3 looks for the connection of each packet in a list, which takes most of the time of a node with
// hundreds of connections. Here the packets of known connections are found by a hash. What happens to
// them is the same.
#ifndef ARMILLARY_NS3_TCP_H
#define ARMILLARY_NS3_TCP_H

#include <unordered_map>

#include "ns3/internet-module.h"

namespace armillary {

class Tcp : public ns3::TcpL4Protocol {
public:
    static ns3::TypeId GetTypeId() {
        static ns3::TypeId tid = ns3::TypeId("armillary::Tcp")
                                     .SetParent<ns3::TcpL4Protocol>()
                                     .AddConstructor<Tcp>();
        return tid;
    }

    // Packets of the peer of `socket`, which is connected, go straight to it.
    void know(ns3::Ptr<ns3::Socket> socket) {
        ns3::Ipv4EndPoint* end = Inside::of(ns3::DynamicCast<ns3::TcpSocketBase>(socket));
        if (end) ends_[key(end->GetPeerAddress(), end->GetPeerPort(), end->GetLocalPort())] = end;
    }

    RxStatus Receive(ns3::Ptr<ns3::Packet> packet, const ns3::Ipv4Header& header,
                     ns3::Ptr<ns3::Ipv4Interface> interface) override {
        ns3::TcpHeader tcp;
        packet->PeekHeader(tcp);
        auto found =
            ends_.find(key(header.GetSource(), tcp.GetSourcePort(), tcp.GetDestinationPort()));
        if (found == ends_.end()) return TcpL4Protocol::Receive(packet, header, interface);
        found->second->ForwardUp(packet, header, tcp.GetSourcePort(), interface);
        return RX_OK;
    }
    using TcpL4Protocol::Receive;

private:
    // The end point of a socket, which ns-3 shows to its own sockets only.
    struct Inside : ns3::TcpSocketBase {
        static ns3::Ipv4EndPoint* of(ns3::Ptr<ns3::TcpSocketBase> socket) {
            return PeekPointer(socket)->*(&Inside::m_endPoint);
        }
    };
    static uint64_t key(ns3::Ipv4Address peer, uint16_t peer_port, uint16_t port) {
        return uint64_t(peer.Get()) << 32 | uint64_t(peer_port) << 16 | port;
    }

    std::unordered_map<uint64_t, ns3::Ipv4EndPoint*> ends_;
};

}  // namespace armillary

#endif
