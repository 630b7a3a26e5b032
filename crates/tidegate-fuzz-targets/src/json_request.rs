//! Any bytes as a JSON request, in our format or in that of envoyproxy/ratelimit's `/json`. Nothing panics, every error
//! has a message, and accepted requests are within bounds.

use tidegate_server::json::{
    self, BATCH_REQUESTS_MAX, JsonRequest, RequestForm, SingleOrBatch, request_bounds,
};
use tidegate_server::serve::rls;

const FORMS: [RequestForm; 5] = [
    RequestForm::OptionalDomain,
    RequestForm::Check,
    RequestForm::Acquire,
    RequestForm::Renew,
    RequestForm::Release,
];

/// Reads the bytes in every form of a JSON request.
pub fn json_request(bytes: &[u8]) {
    match json::read_owned(bytes) {
        Ok(request) => assert!(!request.request.descriptors.is_empty()),
        Err(error) => assert!(!error.to_string().is_empty()),
    }
    FORMS.into_iter().for_each(|form| match json::read_single(bytes, form) {
        Ok(request) => assert_bounded(&request),
        Err(error) => assert!(!error.to_string().is_empty()),
    });
    match json::read_single_or_batch(bytes) {
        Ok(SingleOrBatch::Single(request)) => assert_bounded(&request),
        Ok(SingleOrBatch::Batch(requests)) => {
            assert!(requests.len() <= BATCH_REQUESTS_MAX);
            requests.iter().for_each(assert_bounded);
        }
        Err(error) => assert!(!error.to_string().is_empty()),
    }
    match rls::protojson::read(bytes) {
        Ok(request) => match request.to_request() {
            Ok(request) => assert!(!request.domain().is_empty() && !request.descriptors().is_empty()),
            Err(error) => assert!(!error.to_string().is_empty()),
        },
        Err(error) => assert!(!error.to_string().is_empty()),
    }
}

fn assert_bounded(request: &JsonRequest<'_>) {
    let entries = request.entry_refs();
    let descriptors = entries.descriptors();
    assert!((1..=request_bounds().descriptors_max).contains(&descriptors.len()));
    let owned = request.clone().into_owned();
    assert_eq!(owned.domain.as_deref().unwrap_or_default(), request.domain());
    for (descriptor, owned) in descriptors.iter().zip(&owned.request.descriptors) {
        assert!(descriptor.entries.len() <= request_bounds().entries_max);
        let borrowed = descriptor.entries.iter().map(|entry| (entry.key, entry.value));
        assert!(borrowed.eq(owned.entries.iter().map(|(key, value)| (&**key, &**value))));
        assert_eq!(descriptor.cost, owned.cost);
    }
}
