//! AF_XDP ports on real (virtual) interfaces.
//!
//! ```text
//!   namespace weir-xdp-<test>-<pid>
//!
//!     tests ── packet socket ── b0 ═══ veth ═══ a0 ── port A ┐
//!                                                            │ one arena, one pool
//!     tests ── packet socket ── b1 ═══ veth ═══ a1 ── port B ┘
//! ```
//!
//! Needs root and `ip`. Every test has a namespace of its own, removed when the test ends, however it ends.

mod xdp {
    mod bench;
    mod errors;
    mod links;
    mod storm;
    mod traffic;
}
