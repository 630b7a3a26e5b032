//! What a load of rules files may vary.

use tidegate_core::algorithm::CountDenied;

/// How rules files are loaded. The default loads files for envoyproxy/ratelimit as it does by default.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct LoadOptions {
    /// Merge the files for envoyproxy/ratelimit of one domain, as with `MERGE_DOMAIN_CONFIG` there. Otherwise two files
    /// of a domain are an error. The files of a domain of native rules are always merged.
    pub merge_domains: bool,
    /// Ignore files for envoyproxy/ratelimit whose names, or the names of whose directories, begin with a dot, as with
    /// `RUNTIME_IGNOREDOTFILES` there.
    pub ignore_dotfiles: bool,
    /// What the limits of files for envoyproxy/ratelimit count.
    pub counting: Counting,
    /// A dry run of all rules: everything is counted and reported, and nothing is denied or delayed.
    pub global_shadow: bool,
}

/// What the limits of files for envoyproxy/ratelimit count. It holds for fixed windows without `count_denied`, and for
/// the limits that requests to their domains carry.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Counting {
    /// Every hit, also beyond the limit, for each descriptor separately.
    #[default]
    Upstream,
    /// Every hit, except if another descriptor of the request is over its limit and this one is not: as there with
    /// `STOP_CACHE_KEY_INCREMENT_WHEN_OVERLIMIT`.
    UpstreamStop,
    /// All hits of a request that passes, and none of a request that is denied.
    None,
}

impl Counting {
    /// The option of a limit that counts like this.
    pub const fn count_denied(self) -> CountDenied {
        match self {
            Self::Upstream => CountDenied::Always,
            Self::UpstreamStop => CountDenied::IfOver,
            Self::None => CountDenied::Never,
        }
    }
}
