//! Kubelet starts after a reboot.

/// Whether listed values were kept when a kubelet started.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Start {
    /// They were kept.
    Kept,
    /// The kubelet set some of them to 0.
    Reset,
}
