//! The address of a store.

/// The address of a store. Shown without its password.
#[derive(Clone, PartialEq, Eq)]
pub struct StoreUrl {}

impl std::fmt::Debug for StoreUrl {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("StoreUrl")
    }
}
