#![no_main]

use libfuzzer_sys::{Corpus, fuzz_target};

fuzz_target!(|bytes: &[u8]| -> Corpus {
    let Ok(text) = str::from_utf8(bytes) else { return Corpus::Reject };
    tidegate_fuzz_targets::patterns(text);
    Corpus::Keep
});
