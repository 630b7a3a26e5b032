//! What a load of files for envoyproxy/ratelimit may vary.

/// How files for envoyproxy/ratelimit are loaded. The default is what it does by default.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct LoadOptions {
    /// Merge the files of one domain, as with `MERGE_DOMAIN_CONFIG` there. Otherwise two files of a domain are an
    /// error. The files of a domain of native rules are always merged.
    pub merge_domains: bool,
    /// Ignore files and directories whose names begin with a dot, as with `RUNTIME_IGNOREDOTFILES` there.
    pub ignore_dotfiles: bool,
}
