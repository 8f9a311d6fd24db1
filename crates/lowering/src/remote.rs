//! Memory outside of the NPUs of a platform. Not here: how long accesses take (`memory`), and what
//! lies there (`contents`).

use device::memory::Access;
use platform::Platform;

/// Accesses to memory outside the NPUs, if there is any that can be.
pub(crate) fn remote(platform: &Platform) -> Option<Access> {
    platform.remote_memory.as_ref()?.access(platform.fabric.npus()).ok()
}
