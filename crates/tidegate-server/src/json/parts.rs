//! Deserializes the parts of a request, from the request to its entries.

use std::borrow::Cow;
use std::cell::Cell;
use std::fmt;

use serde::de::{DeserializeSeed, Deserializer, Error, MapAccess, SeqAccess, Unexpected, Visitor};

use super::fields::{self, FieldNameSeed, NAME_CHARS_MAX, ObjectSeed, TextSeed};
use super::request::{DescriptorSpan, JsonEntry, JsonRequest, Ttl};
use super::{BATCH_REQUESTS_MAX, COST_DEFAULT, RequestForm, request_bounds};
use crate::text;

/// Implements a seed that is its own visitor.
macro_rules! seed {
    ($seed:ty => $value:ty, $deserialize:ident) => {
        impl<'de> DeserializeSeed<'de> for $seed {
            type Value = $value;

            fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Self::Value, D::Error> {
                deserializer.$deserialize(self)
            }
        }
    };
}

/// A request of this form.
#[derive(Clone, Copy)]
pub(super) struct RequestSeed(pub RequestForm);

seed!(RequestSeed => JsonRequest<'de>, deserialize_map);

impl<'de> Visitor<'de> for RequestSeed {
    type Value = JsonRequest<'de>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a request (hint: an object, as in {\"attributes\": {\"user\": \"42\"}})")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<JsonRequest<'de>, A::Error> {
        let mut request = JsonRequest::default();
        let mut fields = RequestFields::new(&mut request);
        while let Some(name) = map.next_key_seed(FieldNameSeed)? {
            fields.read(&mut map, &name, self.0, &[])?;
        }
        fields.finish(self.0)?;
        Ok(request)
    }
}

/// A request with a domain, or a batch.
pub(super) struct RequestOrBatchSeed<'a, 'de> {
    pub batch: BatchSeed<'a>,
    /// Receives a single request. It is large, and the parser would move a return value several times.
    pub request: &'a mut JsonRequest<'de>,
}

seed!(RequestOrBatchSeed<'_, 'de> => Option<Vec<JsonRequest<'de>>>, deserialize_map);

impl<'de> Visitor<'de> for RequestOrBatchSeed<'_, 'de> {
    /// The batch; `None` for a single request, which was written to `request`.
    type Value = Option<Vec<JsonRequest<'de>>>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        RequestSeed(RequestForm::Check).expecting(f)
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
        let (mut fields, mut requests) = (RequestFields::new(self.request), None);
        while let Some(name) = map.next_key_seed(FieldNameSeed)? {
            match &*name {
                "requests" => fields::read_field(&mut map, &name, &mut requests, self.batch)?,
                _ => fields.read(&mut map, &name, RequestForm::Check, &["requests"])?,
            }
        }
        match requests {
            None => fields.finish(RequestForm::Check).map(|()| None),
            Some(requests) if fields.is_empty() => Ok(Some(requests)),
            Some(_) => Err(A::Error::custom(
                "`requests` must be the only field (hint: each request in the list has its own `domain`)",
            )),
        }
    }
}

/// A list of requests.
#[derive(Clone, Copy)]
pub(super) struct BatchSeed<'a> {
    /// Index of the request that is being read.
    pub current_index: &'a Cell<Option<usize>>,
}

seed!(BatchSeed<'_> => Vec<JsonRequest<'de>>, deserialize_seq);

impl<'de> Visitor<'de> for BatchSeed<'_> {
    type Value = Vec<JsonRequest<'de>>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a list of requests (hint: [{\"domain\": \"api\", \"attributes\": {\"user\": \"42\"}}])")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Self::Value, A::Error> {
        let mut requests = Vec::new();
        self.current_index.set(Some(0));
        while let Some(request) = seq.next_element_seed(RequestSeed(RequestForm::Check))? {
            check_room(requests.len(), BATCH_REQUESTS_MAX, "requests")?;
            requests.push(request);
            self.current_index.set(Some(requests.len()));
        }
        self.current_index.set(None);
        if requests.is_empty() {
            return Err(A::Error::custom("the list of requests is empty (hint: a batch needs at least one)"));
        }
        Ok(requests)
    }
}

/// The fields of a request that were read so far.
struct RequestFields<'a, 'de> {
    request: &'a mut JsonRequest<'de>,
    attributes: Option<()>,
    descriptors: Option<()>,
    cost: Option<u64>,
}

impl<'a, 'de> RequestFields<'a, 'de> {
    fn new(request: &'a mut JsonRequest<'de>) -> Self {
        Self { request, attributes: None, descriptors: None, cost: None }
    }

    /// Reads one field. `also_allowed` are names for the hint that the caller handles.
    fn read<A: MapAccess<'de>>(
        &mut self,
        map: &mut A,
        name: &str,
        form: RequestForm,
        also_allowed: &[&str],
    ) -> Result<(), A::Error> {
        let request = &mut *self.request;
        match name {
            "domain" => fields::read_field(map, name, &mut request.domain, TextSeed("the name of a domain")),
            "attributes" => fields::read_field(map, name, &mut self.attributes, AttributesSeed(request)),
            "descriptors" => fields::read_field(map, name, &mut self.descriptors, DescriptorsSeed(request)),
            "cost" => fields::read_field(map, name, &mut self.cost, CostSeed),
            "ttl" if form.has_ttl() => fields::read_field(map, name, &mut request.ttl, TtlSeed),
            "token" if form.has_token() => fields::read_field(
                map,
                name,
                &mut request.token,
                TextSeed("a token, as `acquire` returned it,"),
            ),
            _ => {
                let mut allowed = vec!["domain", "attributes", "descriptors", "cost"];
                allowed.extend(form.has_ttl().then_some("ttl"));
                allowed.extend(form.has_token().then_some("token"));
                allowed.extend(also_allowed);
                Err(fields::unknown_field("a request", name, &allowed))
            }
        }
    }

    fn is_empty(&self) -> bool {
        let Self { request, attributes, descriptors, cost } = self;
        request.domain.is_none() && attributes.is_none() && descriptors.is_none() && cost.is_none()
    }

    fn finish<E: Error>(self, form: RequestForm) -> Result<(), E> {
        let request = self.request;
        match (self.attributes, self.descriptors, self.cost) {
            (Some(()), None, cost) => {
                let entries_end = request.entries.len();
                request.descriptors.push(DescriptorSpan { entries_end, cost: cost.unwrap_or(COST_DEFAULT) });
            }
            (None, Some(()), None) => {}
            (None, Some(()), Some(_)) => {
                return Err(E::custom(
                    "`cost` cannot be used with `descriptors` (hint: put a `cost` into each descriptor)",
                ));
            }
            (Some(()), Some(()), _) => {
                return Err(E::custom(
                    "`attributes` and `descriptors` cannot be used together (hint: `attributes` is for one descriptor, \
                     `descriptors` for several)",
                ));
            }
            (None, None, _) => {
                return Err(E::custom(
                    "the request has no attributes (hint: add \"attributes\": {\"user\": \"42\"})",
                ));
            }
        }
        if form != RequestForm::OptionalDomain && request.domain().is_empty() {
            return Err(E::custom(
                "the request has no domain (hint: add \"domain\": \"api\", as in the rules file)",
            ));
        }
        if form.has_token() && request.token.as_deref().unwrap_or_default().is_empty() {
            return Err(E::custom("the request has no `token` (hint: use the one that `acquire` returned)"));
        }
        Ok(())
    }
}

impl RequestForm {
    fn has_ttl(self) -> bool {
        matches!(self, Self::Acquire | Self::Renew)
    }

    fn has_token(self) -> bool {
        matches!(self, Self::Renew | Self::Release)
    }
}

/// Names and values. A name may appear only once.
struct AttributesSeed<'a, 'de>(&'a mut JsonRequest<'de>);

seed!(AttributesSeed<'_, 'de> => (), deserialize_map);

impl<'de> Visitor<'de> for AttributesSeed<'_, 'de> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("attributes (hint: an object of names and values, as in {\"user\": \"42\"})")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<(), A::Error> {
        // Entries of `descriptors` may come first. Then the request is rejected at its end.
        let start = self.0.entries.len();
        while let Some(key) = map.next_key_seed(FieldNameSeed)? {
            let entries = &mut self.0.entries;
            if entries[start..].iter().any(|entry| entry.key == key) {
                let name = text::printable(key.as_bytes(), NAME_CHARS_MAX);
                return Err(A::Error::custom(format!(
                    "attribute `{name}` appears twice (hint: remove one; only `entries` of `descriptors` may repeat a \
                     key)"
                )));
            }
            check_room(entries.len() - start, request_bounds().entries_max, "attributes")?;
            let value = map.next_value_seed(AttributeValueSeed(&key))?;
            entries.push(JsonEntry { key, value });
        }
        Ok(())
    }
}

/// The value of the attribute with this name.
struct AttributeValueSeed<'a>(&'a str);

seed!(AttributeValueSeed<'_> => Cow<'de, str>, deserialize_str);

impl<'de> Visitor<'de> for AttributeValueSeed<'_> {
    type Value = Cow<'de, str>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = text::printable(self.0.as_bytes(), NAME_CHARS_MAX);
        write!(f, "the value of attribute `{name}` as text (hint: put it in double quotes)")
    }

    fn visit_borrowed_str<E: Error>(self, text: &'de str) -> Result<Self::Value, E> {
        Ok(Cow::Borrowed(text))
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<Self::Value, E> {
        Ok(Cow::Owned(text.to_owned()))
    }
}

struct DescriptorsSeed<'a, 'de>(&'a mut JsonRequest<'de>);

seed!(DescriptorsSeed<'_, 'de> => (), deserialize_seq);

impl<'de> Visitor<'de> for DescriptorsSeed<'_, 'de> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a list of descriptors (hint: [{\"entries\": [{\"key\": \"user\", \"value\": \"42\"}]}])")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<(), A::Error> {
        while let Some(cost) = seq.next_element_seed(DescriptorSeed(self.0))? {
            check_room(self.0.descriptors.len(), request_bounds().descriptors_max, "descriptors")?;
            let entries_end = self.0.entries.len();
            self.0.descriptors.push(DescriptorSpan { entries_end, cost });
        }
        if self.0.descriptors.is_empty() {
            return Err(A::Error::custom(
                "the list of descriptors is empty (hint: a request needs at least one)",
            ));
        }
        Ok(())
    }
}

/// Appends its entries to those of the request, and returns its cost.
struct DescriptorSeed<'a, 'de>(&'a mut JsonRequest<'de>);

seed!(DescriptorSeed<'_, 'de> => u64, deserialize_map);

impl<'de> Visitor<'de> for DescriptorSeed<'_, 'de> {
    type Value = u64;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a descriptor (hint: {\"entries\": [{\"key\": \"user\", \"value\": \"42\"}]})")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<u64, A::Error> {
        let (mut entries, mut cost) = (None, None);
        while let Some(name) = map.next_key_seed(FieldNameSeed)? {
            match &*name {
                "entries" => fields::read_field(&mut map, &name, &mut entries, EntriesSeed(self.0))?,
                "cost" => fields::read_field(&mut map, &name, &mut cost, CostSeed)?,
                _ => return Err(fields::unknown_field("a descriptor", &name, &["entries", "cost"])),
            }
        }
        let hint = "a descriptor needs `entries` (hint: [{\"key\": \"user\", \"value\": \"42\"}])";
        entries.ok_or_else(|| A::Error::custom(hint))?;
        Ok(cost.unwrap_or(COST_DEFAULT))
    }
}

struct EntriesSeed<'a, 'de>(&'a mut JsonRequest<'de>);

seed!(EntriesSeed<'_, 'de> => (), deserialize_seq);

impl<'de> Visitor<'de> for EntriesSeed<'_, 'de> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a list of entries (hint: [{\"key\": \"user\", \"value\": \"42\"}])")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<(), A::Error> {
        let entries = &mut self.0.entries;
        let start = entries.len();
        let seed =
            ObjectSeed::<JsonEntry<'de>>::new("an entry (hint: {\"key\": \"user\", \"value\": \"42\"})");
        while let Some(entry) = seq.next_element_seed(seed)? {
            check_room(entries.len() - start, request_bounds().entries_max, "entries of a descriptor")?;
            entries.push(entry);
        }
        Ok(())
    }
}

struct CostSeed;

seed!(CostSeed => u64, deserialize_u64);

impl Visitor<'_> for CostSeed {
    type Value = u64;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a cost, which is a whole number from 0 (hint: omit it for 1)")
    }

    fn visit_u64<E: Error>(self, cost: u64) -> Result<u64, E> {
        Ok(cost)
    }

    fn visit_f64<E: Error>(self, cost: f64) -> Result<u64, E> {
        fields::whole_number(cost).ok_or_else(|| E::invalid_type(Unexpected::Float(cost), &self))
    }
}

/// `"30s"`, or a number of milliseconds.
struct TtlSeed;

seed!(TtlSeed => Ttl, deserialize_any);

impl Visitor<'_> for TtlSeed {
    type Value = Ttl;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a ttl (hint: a duration as text, \"30s\", or a number of milliseconds, 30000)")
    }

    fn visit_u64<E: Error>(self, millis: u64) -> Result<Ttl, E> {
        Ttl::from_nanos(u128::from(millis) * 1_000_000)
    }

    fn visit_f64<E: Error>(self, millis: f64) -> Result<Ttl, E> {
        let whole =
            fields::whole_number(millis).ok_or_else(|| E::invalid_type(Unexpected::Float(millis), &self))?;
        self.visit_u64(whole)
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<Ttl, E> {
        let nanos = tidegate_core::text::parse_duration(text).map_err(E::custom)?;
        Ttl::from_nanos(u128::from(nanos))
    }
}

/// Fails if a list of `len` items is full.
fn check_room<E: Error>(len: usize, max: usize, what: &str) -> Result<(), E> {
    if len < max {
        return Ok(());
    }
    Err(E::custom(format!("there are more than {max} {what} (hint: that is the maximum)")))
}
