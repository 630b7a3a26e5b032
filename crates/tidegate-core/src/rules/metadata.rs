//! Metadata of rules: typed values that answers contain.

/// Names and values, sorted by name, each name once.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Metadata(Vec<(Box<str>, MetadataValue)>);

/// A value of metadata, as in JSON.
#[derive(Clone, Debug, PartialEq)]
pub enum MetadataValue {
    /// No value.
    Null,
    /// True or false.
    Boolean(bool),
    /// A finite number. Envoy has only doubles.
    Number(f64),
    /// Text.
    Text(Box<str>),
    /// Several values.
    List(Vec<MetadataValue>),
    /// Names and values.
    Object(Metadata),
}

impl Metadata {
    /// Maximum number of values in the metadata of a rule, and in that of an answer. A list and an object count too.
    pub const VALUES_MAX: usize = 1_024;
    /// Maximum depth of lists and objects. Protobuf readers refuse messages that are nested deeper than 100, and one
    /// object takes three of them.
    pub const DEPTH_MAX: usize = 16;

    /// The names and values. If a name occurs twice, the first one counts.
    pub fn new(fields: impl IntoIterator<Item = (Box<str>, MetadataValue)>) -> Self {
        let mut fields: Vec<_> = fields.into_iter().collect();
        fields.sort_by(|one, other| one.0.cmp(&other.0));
        fields.dedup_by(|later, first| later.0 == first.0);
        Self(fields)
    }

    /// Whether there are no names.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The names and values, sorted by name.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = (&str, &MetadataValue)> {
        self.0.iter().map(|(name, value)| (&**name, value))
    }

    /// Adds the names of `other` that are missing here. Two objects with the same name are merged in the same way. Any
    /// other value that is here stays.
    ///
    /// Each added value reduces `values_left`. A value with more parts than that is left out.
    pub fn merge(&mut self, other: &Self, values_left: &mut usize) {
        for (name, value) in &other.0 {
            match self.0.binary_search_by(|(own, _)| own.cmp(name)) {
                Ok(index) => {
                    if let (MetadataValue::Object(own), MetadataValue::Object(other)) =
                        (&mut self.0[index].1, value)
                    {
                        own.merge(other, values_left);
                    }
                }
                Err(index) => {
                    let Some(left) = values_left.checked_sub(value.count()) else { continue };
                    *values_left = left;
                    self.0.insert(index, (name.clone(), value.clone()));
                }
            }
        }
    }
}

impl MetadataValue {
    /// The number of values in it, and itself.
    fn count(&self) -> usize {
        1 + match self {
            Self::List(values) => values.iter().map(Self::count).sum::<usize>(),
            Self::Object(object) => object.0.iter().map(|(_, value)| value.count()).sum(),
            _ => 0,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::MetadataValue::{Boolean, List, Null, Number, Object, Text};
    use super::*;

    fn metadata(fields: &[(&str, MetadataValue)]) -> Metadata {
        Metadata::new(fields.iter().map(|(name, value)| (Box::from(*name), value.clone())))
    }

    fn object(fields: &[(&str, MetadataValue)]) -> MetadataValue {
        Object(metadata(fields))
    }

    fn merged(first: &[(&str, MetadataValue)], later: &[(&str, MetadataValue)]) -> Metadata {
        let mut merged = metadata(first);
        merged.merge(&metadata(later), &mut Metadata::VALUES_MAX.clone());
        merged
    }

    #[test]
    fn names_are_sorted_and_the_first_of_two_counts() {
        let both = metadata(&[("b", Null), ("a", Number(1.0)), ("a", Number(2.0))]);
        assert_eq!(both.iter().collect::<Vec<_>>(), [("a", &Number(1.0)), ("b", &Null)]);
    }

    #[test]
    fn the_first_leaf_stays_whatever_it_is() {
        let values = [
            Null,
            Boolean(false),
            Number(0.0),
            Text("".into()),
            List(vec![]),
            List(vec![Number(1.0)]),
            object(&[("x", Null)]),
        ];
        for first in &values {
            for later in &values {
                let both = merged(&[("a", first.clone())], &[("a", later.clone())]);
                assert_eq!(both, metadata(&[("a", first.clone())]), "{first:?} {later:?}");
            }
        }
    }

    #[test]
    fn objects_merge_at_every_depth() {
        let first = [("o", object(&[("in", object(&[("x", Number(1.0))])), ("leaf", Text("first".into()))]))];
        let later = [
            ("new", List(vec![Null])),
            (
                "o",
                object(&[("in", object(&[("x", Number(2.0)), ("y", Boolean(true))])), ("leaf", object(&[]))]),
            ),
        ];
        let inner = object(&[("x", Number(1.0)), ("y", Boolean(true))]);
        let outer = object(&[("in", inner), ("leaf", Text("first".into()))]);
        assert_eq!(merged(&first, &later), metadata(&[("new", List(vec![Null])), ("o", outer)]));
    }

    #[test]
    fn the_number_of_values_is_bounded() {
        let later = metadata(&[("a", Number(2.0)), ("b", List(vec![Null, Null])), ("c", Null), ("d", Null)]);
        let (mut small, mut left) = (Metadata::default(), 2);
        small.merge(&later, &mut left);
        assert_eq!((small, left), (metadata(&[("a", Number(2.0)), ("c", Null)]), 0));
        let (mut all, mut left) = (Metadata::default(), 10);
        all.merge(&later, &mut left);
        assert_eq!((&all, left), (&later, 4));
    }
}
