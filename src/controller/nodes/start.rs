//! Kubelets that start after a reboot.

/// What came of listed values when a kubelet started.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::controller) enum Start {
    /// They stayed as they were.
    Kept,
    /// The kubelet has set some of them to 0.
    Reset,
}
