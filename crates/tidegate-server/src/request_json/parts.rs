//! The parts of a request, from the whole to its entries.

use std::borrow::Cow;
use std::cell::Cell;
use std::fmt;

use serde_core::de::{DeserializeSeed, Deserializer, Error, MapAccess, SeqAccess, Unexpected, Visitor};

use super::fields::{self, NAME_CHARS_MAX, Name, Text};
use super::request::{DescriptorRead, EntryRead, ReadRequest, Ttl};
use super::{BATCH_REQUESTS_MAX, DESCRIPTORS_MAX, ENTRIES_MAX, Form};
use crate::shown;

const COST_DEFAULT: u64 = 1;

/// A seed that reads as a visitor of its own.
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
pub(super) struct Request(pub Form);

seed!(Request => ReadRequest<'de>, deserialize_map);

impl<'de> Visitor<'de> for Request {
    type Value = ReadRequest<'de>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a request (hint: an object, as in {\"attributes\": {\"user\": \"42\"}})")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<ReadRequest<'de>, A::Error> {
        let mut request = ReadRequest::default();
        let mut fields = RequestFields::of(&mut request);
        while let Some(name) = map.next_key_seed(Name)? {
            fields.read(&mut map, &name, self.0, &[])?;
        }
        fields.finish(self.0)?;
        Ok(request)
    }
}

/// A request with a domain, or several.
pub(super) struct RequestOrBatch<'a, 'de> {
    pub batch: Batch<'a>,
    /// Where one request is written: it is large, and parsers hand on what they read several times.
    pub request: &'a mut ReadRequest<'de>,
}

seed!(RequestOrBatch<'_, 'de> => Option<Vec<ReadRequest<'de>>>, deserialize_map);

impl<'de> Visitor<'de> for RequestOrBatch<'_, 'de> {
    /// Several requests; none if there is one, which was written to its place.
    type Value = Option<Vec<ReadRequest<'de>>>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        Request(Form::Check).expecting(f)
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
        let (mut fields, mut requests) = (RequestFields::of(self.request), None);
        while let Some(name) = map.next_key_seed(Name)? {
            match &*name {
                "requests" => fields::read(&mut map, &name, &mut requests, self.batch)?,
                _ => fields.read(&mut map, &name, Form::Check, &["requests"])?,
            }
        }
        match requests {
            None => fields.finish(Form::Check).map(|()| None),
            Some(requests) if fields.are_none() => Ok(Some(requests)),
            Some(_) => Err(A::Error::custom(
                "`requests` stands alone (hint: each request has its own `domain`, within the list)",
            )),
        }
    }
}

/// A list of requests.
#[derive(Clone, Copy)]
pub(super) struct Batch<'a> {
    /// The number of the request that is being read, from 0.
    pub reading: &'a Cell<Option<usize>>,
}

seed!(Batch<'_> => Vec<ReadRequest<'de>>, deserialize_seq);

impl<'de> Visitor<'de> for Batch<'_> {
    type Value = Vec<ReadRequest<'de>>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a list of requests (hint: [{\"domain\": \"api\", \"attributes\": {\"user\": \"42\"}}])")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Self::Value, A::Error> {
        let mut requests = Vec::new();
        self.reading.set(Some(0));
        while let Some(request) = seq.next_element_seed(Request(Form::Check))? {
            has_room(requests.len(), BATCH_REQUESTS_MAX, "requests")?;
            requests.push(request);
            self.reading.set(Some(requests.len()));
        }
        self.reading.set(None);
        if requests.is_empty() {
            return Err(A::Error::custom("the list of requests is empty (hint: a batch has at least one)"));
        }
        Ok(requests)
    }
}

/// The fields of a request, as far as they were read.
struct RequestFields<'a, 'de> {
    request: &'a mut ReadRequest<'de>,
    attributes: Option<()>,
    descriptors: Option<()>,
    cost: Option<u64>,
}

impl<'a, 'de> RequestFields<'a, 'de> {
    /// None, of an empty request.
    fn of(request: &'a mut ReadRequest<'de>) -> Self {
        Self { request, attributes: None, descriptors: None, cost: None }
    }

    /// Reads one of them; `others` are fields that stand beside them.
    fn read<A: MapAccess<'de>>(
        &mut self,
        map: &mut A,
        name: &str,
        form: Form,
        others: &[&str],
    ) -> Result<(), A::Error> {
        let request = &mut *self.request;
        match name {
            "domain" => fields::read(map, name, &mut request.domain, Text("the name of a domain")),
            "attributes" => fields::read(map, name, &mut self.attributes, Attributes(request)),
            "descriptors" => fields::read(map, name, &mut self.descriptors, Descriptors(request)),
            "cost" => fields::read(map, name, &mut self.cost, Cost),
            "ttl" if form.has_ttl() => fields::read(map, name, &mut request.ttl, TtlText),
            "token" if form.has_token() => {
                fields::read(map, name, &mut request.token, Text("a token, as `acquire` answered it,"))
            }
            _ => {
                let mut known = vec!["domain", "attributes", "descriptors", "cost"];
                known.extend(form.has_ttl().then_some("ttl"));
                known.extend(form.has_token().then_some("token"));
                known.extend(others);
                Err(fields::unknown("a request", name, &known))
            }
        }
    }

    fn are_none(&self) -> bool {
        let Self { request, attributes, descriptors, cost } = self;
        request.domain.is_none() && attributes.is_none() && descriptors.is_none() && cost.is_none()
    }

    fn finish<E: Error>(self, form: Form) -> Result<(), E> {
        let request = self.request;
        match (self.attributes, self.descriptors, self.cost) {
            (Some(()), None, cost) => {
                let entries_end = request.entries.len();
                request.descriptors.push(DescriptorRead { entries_end, cost: cost.unwrap_or(COST_DEFAULT) });
            }
            (None, Some(()), None) => {}
            (None, Some(()), Some(_)) => {
                return Err(E::custom(
                    "`cost` does not go with `descriptors` (hint: each descriptor has its own, beside its `entries`)",
                ));
            }
            (Some(()), Some(()), _) => {
                return Err(E::custom(
                    "`attributes` and `descriptors` do not go together (hint: `attributes` is for one descriptor, \
                     `descriptors` for several)",
                ));
            }
            (None, None, _) => {
                return Err(E::custom(
                    "the request says nothing of itself (hint: add \"attributes\": {\"user\": \"42\"})",
                ));
            }
        }
        if form != Form::Loose && request.domain().is_empty() {
            return Err(E::custom(
                "the request names no domain (hint: add \"domain\": \"api\", as the file of its rules does)",
            ));
        }
        if form.has_token() && request.token.as_deref().unwrap_or_default().is_empty() {
            return Err(E::custom("the request has no `token` (hint: the one that `acquire` answered)"));
        }
        Ok(())
    }
}

impl Form {
    fn has_ttl(self) -> bool {
        matches!(self, Self::Acquire | Self::Renew)
    }

    fn has_token(self) -> bool {
        matches!(self, Self::Renew | Self::Release)
    }
}

/// Names and values, none of the names twice.
struct Attributes<'a, 'de>(&'a mut ReadRequest<'de>);

seed!(Attributes<'_, 'de> => (), deserialize_map);

impl<'de> Visitor<'de> for Attributes<'_, 'de> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("attributes (hint: an object of names and values, as in {\"user\": \"42\"})")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<(), A::Error> {
        // Those of `descriptors`, if they stand before; then the request is refused in the end.
        let start = self.0.entries.len();
        while let Some(key) = map.next_key_seed(Name)? {
            let entries = &mut self.0.entries;
            if entries[start..].iter().any(|known| known.key == key) {
                let name = shown::text(key.as_bytes(), NAME_CHARS_MAX);
                return Err(A::Error::custom(format!(
                    "attribute `{name}` stands twice (hint: leave one out; in `entries` of `descriptors` a key may \
                     stand twice)"
                )));
            }
            has_room(entries.len() - start, ENTRIES_MAX, "attributes")?;
            let value = map.next_value_seed(AttributeValue(&key))?;
            entries.push(EntryRead { key, value });
        }
        Ok(())
    }
}

/// The value of the attribute of this name.
struct AttributeValue<'a>(&'a str);

seed!(AttributeValue<'_> => Cow<'de, str>, deserialize_str);

impl<'de> Visitor<'de> for AttributeValue<'_> {
    type Value = Cow<'de, str>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = shown::text(self.0.as_bytes(), NAME_CHARS_MAX);
        write!(f, "the value of attribute `{name}` as text (hint: put it in double quotes)")
    }

    fn visit_borrowed_str<E: Error>(self, text: &'de str) -> Result<Self::Value, E> {
        Ok(Cow::Borrowed(text))
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<Self::Value, E> {
        Ok(Cow::Owned(text.to_owned()))
    }
}

struct Descriptors<'a, 'de>(&'a mut ReadRequest<'de>);

seed!(Descriptors<'_, 'de> => (), deserialize_seq);

impl<'de> Visitor<'de> for Descriptors<'_, 'de> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a list of descriptors (hint: [{\"entries\": [{\"key\": \"user\", \"value\": \"42\"}]}])")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<(), A::Error> {
        while let Some(cost) = seq.next_element_seed(Descriptor(self.0))? {
            has_room(self.0.descriptors.len(), DESCRIPTORS_MAX, "descriptors")?;
            let entries_end = self.0.entries.len();
            self.0.descriptors.push(DescriptorRead { entries_end, cost });
        }
        if self.0.descriptors.is_empty() {
            return Err(A::Error::custom(
                "the list of descriptors is empty (hint: a request has at least one)",
            ));
        }
        Ok(())
    }
}

/// Puts its entries behind those that are there, and comes to its cost.
struct Descriptor<'a, 'de>(&'a mut ReadRequest<'de>);

seed!(Descriptor<'_, 'de> => u64, deserialize_map);

impl<'de> Visitor<'de> for Descriptor<'_, 'de> {
    type Value = u64;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a descriptor (hint: {\"entries\": [{\"key\": \"user\", \"value\": \"42\"}]})")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<u64, A::Error> {
        let (mut entries, mut cost) = (None, None);
        while let Some(name) = map.next_key_seed(Name)? {
            match &*name {
                "entries" => fields::read(&mut map, &name, &mut entries, EntryList(self.0))?,
                "cost" => fields::read(&mut map, &name, &mut cost, Cost)?,
                _ => return Err(fields::unknown("a descriptor", &name, &["entries", "cost"])),
            }
        }
        let hint = "a descriptor needs `entries` (hint: [{\"key\": \"user\", \"value\": \"42\"}])";
        entries.ok_or_else(|| A::Error::custom(hint))?;
        Ok(cost.unwrap_or(COST_DEFAULT))
    }
}

struct EntryList<'a, 'de>(&'a mut ReadRequest<'de>);

seed!(EntryList<'_, 'de> => (), deserialize_seq);

impl<'de> Visitor<'de> for EntryList<'_, 'de> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a list of entries (hint: [{\"key\": \"user\", \"value\": \"42\"}])")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<(), A::Error> {
        let entries = &mut self.0.entries;
        let start = entries.len();
        while let Some(entry) = seq.next_element_seed(Entry)? {
            has_room(entries.len() - start, ENTRIES_MAX, "entries of a descriptor")?;
            entries.push(entry);
        }
        Ok(())
    }
}

struct Entry;

seed!(Entry => EntryRead<'de>, deserialize_map);

impl<'de> Visitor<'de> for Entry {
    type Value = EntryRead<'de>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an entry (hint: {\"key\": \"user\", \"value\": \"42\"})")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<EntryRead<'de>, A::Error> {
        let (mut key, mut value): (Option<Cow<'de, str>>, _) = (None, None);
        while let Some(name) = map.next_key_seed(Name)? {
            match &*name {
                "key" => fields::read(&mut map, &name, &mut key, Text("the key of an entry"))?,
                "value" => fields::read(&mut map, &name, &mut value, Text("the value of an entry"))?,
                _ => return Err(fields::unknown("an entry", &name, &["key", "value"])),
            }
        }
        let key =
            key.ok_or_else(|| A::Error::custom("an entry needs a `key` (hint: the name of an attribute)"))?;
        let value =
            value.ok_or_else(|| A::Error::custom("an entry needs a `value` (hint: text, maybe \"\")"))?;
        Ok(EntryRead { key, value })
    }
}

struct Cost;

seed!(Cost => u64, deserialize_u64);

impl Visitor<'_> for Cost {
    type Value = u64;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a cost, which is a whole number that is not negative (hint: leave it out for 1)")
    }

    fn visit_u64<E: Error>(self, cost: u64) -> Result<u64, E> {
        Ok(cost)
    }

    fn visit_f64<E: Error>(self, cost: f64) -> Result<u64, E> {
        fields::whole(cost).ok_or_else(|| E::invalid_type(Unexpected::Float(cost), &self))
    }
}

/// `"30s"`, or milliseconds.
struct TtlText;

seed!(TtlText => Ttl, deserialize_any);

impl Visitor<'_> for TtlText {
    type Value = Ttl;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a ttl (hint: a duration as text, \"30s\", or a number of milliseconds, 30000)")
    }

    fn visit_u64<E: Error>(self, millis: u64) -> Result<Ttl, E> {
        Ttl::from_nanos(u128::from(millis) * 1_000_000)
    }

    fn visit_f64<E: Error>(self, millis: f64) -> Result<Ttl, E> {
        let whole = fields::whole(millis).ok_or_else(|| E::invalid_type(Unexpected::Float(millis), &self))?;
        self.visit_u64(whole)
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<Ttl, E> {
        let nanos = tidegate_core::text::parse_duration(text).map_err(E::custom)?;
        Ttl::from_nanos(u128::from(nanos))
    }
}

/// Whether one more fits.
fn has_room<E: Error>(there: usize, most: usize, what: &str) -> Result<(), E> {
    if there < most {
        return Ok(());
    }
    Err(E::custom(format!("there are more than {most} {what} (hint: that is the most)")))
}
