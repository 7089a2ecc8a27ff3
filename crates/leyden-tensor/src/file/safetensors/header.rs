//! [`Header`]: the JSON before the data, parsed into a description of each tensor.

use std::cell::RefCell;
use std::fmt;

use serde::de::{
    Deserialize, DeserializeSeed, Deserializer, Error as _, IgnoredAny, MapAccess, SeqAccess, Visitor,
};

use super::super::gguf::check_name;
use super::super::json::json_error;
use super::super::{MAX_KEYS, MAX_TENSORS};
use crate::error::{Error, ErrorKind};
use crate::formats::FileType;

use super::types::{MAX_DIMS, file_type};

const METADATA: &str = "__metadata__";

/// A parsed header: syntax and names are checked, sizes are not.
pub(super) struct Header {
    pub(super) metadata: Vec<(String, String)>,
    pub(super) tensors: Vec<(String, RawTensor)>,
}

/// Description of one tensor in a header.
pub(super) struct RawTensor {
    /// The type, or its name if that is unknown.
    pub(super) dtype: Result<FileType, Box<str>>,
    /// Dimensions; at most one more than [`MAX_DIMS`] is kept, so that the tensor is refused.
    pub(super) shape: Vec<u64>,
    pub(super) data_offsets: [u64; 2],
}

impl Header {
    pub(super) fn parse(bytes: &[u8]) -> Result<Header, Error> {
        let at = RefCell::new(At::default());
        let mut parser = serde_json::Deserializer::from_slice(bytes);
        let header = Seed(&at).deserialize(&mut parser).and_then(|header| parser.end().map(|()| header));
        header.map_err(|e| {
            let At { name, kind } = at.take();
            let item = name.as_deref().unwrap_or("header");
            Error::new(kind.unwrap_or_else(|| json_error(&e))).item(item)
        })
    }
}

/// The tensor that is being read, and an error that is not one of syntax.
#[derive(Default)]
struct At {
    name: Option<String>,
    kind: Option<ErrorKind>,
}

struct Seed<'a>(&'a RefCell<At>);

impl Seed<'_> {
    /// Stops the parser with an error of this crate.
    fn stop<E: serde::de::Error>(&self, kind: ErrorKind) -> E {
        self.0.borrow_mut().kind = Some(kind);
        E::custom("refused")
    }

    fn check<E: serde::de::Error>(
        &self,
        what: &'static str,
        len: usize,
        name: &str,
        most: u64,
    ) -> Result<(), E> {
        let count = u64::try_from(len).unwrap_or(u64::MAX);
        if count >= most {
            return Err(self.stop(ErrorKind::TooMany { what, count: count.saturating_add(1), most }));
        }
        let len = u64::try_from(name.len()).unwrap_or(u64::MAX);
        check_name("name", len).map_err(|kind| self.stop(kind))
    }
}

impl<'de> DeserializeSeed<'de> for Seed<'_> {
    type Value = Header;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Header, D::Error> {
        deserializer.deserialize_map(self)
    }
}

impl<'de> Visitor<'de> for Seed<'_> {
    type Value = Header;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object of tensors")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut entries: A) -> Result<Header, A::Error> {
        let mut metadata = None;
        let mut tensors = Vec::new();
        while let Some(name) = entries.next_key::<String>()? {
            if name == METADATA {
                self.0.borrow_mut().name = Some(name);
                if metadata.is_some() {
                    return Err(self.stop(ErrorKind::Duplicate { what: "key" }));
                }
                metadata = Some(entries.next_value_seed(Texts(&self))?);
            } else {
                self.check("number of tensors", tensors.len(), &name, MAX_TENSORS)?;
                let place = &mut self.0.borrow_mut().name;
                place.get_or_insert_default().clone_from(&name);
                let raw = entries.next_value()?;
                tensors.push((name, raw));
            }
            self.0.borrow_mut().name = None;
        }
        Ok(Header { metadata: metadata.unwrap_or_default(), tensors })
    }
}

/// Reads the texts under `__metadata__`. `Metadata` checks that keys are distinct.
struct Texts<'a>(&'a Seed<'a>);

impl<'de> DeserializeSeed<'de> for Texts<'_> {
    type Value = Vec<(String, String)>;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Self::Value, D::Error> {
        deserializer.deserialize_map(self)
    }
}

impl<'de> Visitor<'de> for Texts<'_> {
    type Value = Vec<(String, String)>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object of texts")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut entries: A) -> Result<Self::Value, A::Error> {
        let mut texts = Vec::new();
        while let Some(key) = entries.next_key::<String>()? {
            self.0.check("number of keys", texts.len(), &key, MAX_KEYS)?;
            texts.push((key, entries.next_value()?));
        }
        Ok(texts)
    }
}

impl<'de> Deserialize<'de> for RawTensor {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_map(Fields)
    }
}

struct Fields;

impl<'de> Visitor<'de> for Fields {
    type Value = RawTensor;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object with dtype, shape and data_offsets")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut entries: A) -> Result<RawTensor, A::Error> {
        let (mut dtype, mut shape, mut data_offsets) = (None, None, None);
        while let Some(field) = entries.next_key::<Field>()? {
            let twice = match field {
                Field::Dtype => dtype.replace(entries.next_value::<TypeName>()?.0).is_some(),
                Field::Shape => shape.replace(entries.next_value::<Shape>()?.0).is_some(),
                Field::DataOffsets => data_offsets.replace(entries.next_value()?).is_some(),
            };
            if twice {
                return Err(A::Error::custom(format!("field {} appears twice", field.name())));
            }
        }
        let missing = A::Error::missing_field;
        Ok(RawTensor {
            dtype: dtype.ok_or_else(|| missing("dtype"))?,
            shape: shape.ok_or_else(|| missing("shape"))?,
            data_offsets: data_offsets.ok_or_else(|| missing("data_offsets"))?,
        })
    }
}

#[derive(Clone, Copy)]
enum Field {
    Dtype,
    Shape,
    DataOffsets,
}

impl Field {
    fn name(self) -> &'static str {
        match self {
            Field::Dtype => "dtype",
            Field::Shape => "shape",
            Field::DataOffsets => "data_offsets",
        }
    }
}

impl<'de> Deserialize<'de> for Field {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Name;
        impl Visitor<'_> for Name {
            type Value = Field;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("the name of a field")
            }

            fn visit_str<E: serde::de::Error>(self, name: &str) -> Result<Field, E> {
                let fields = [Field::Dtype, Field::Shape, Field::DataOffsets];
                let known = fields.into_iter().find(|field| field.name() == name);
                known.ok_or_else(|| E::unknown_field(name, &["dtype", "shape", "data_offsets"]))
            }
        }
        deserializer.deserialize_identifier(Name)
    }
}

struct TypeName(Result<FileType, Box<str>>);

impl<'de> Deserialize<'de> for TypeName {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Name;
        impl Visitor<'_> for Name {
            type Value = TypeName;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("the name of a type")
            }

            fn visit_str<E>(self, name: &str) -> Result<TypeName, E> {
                Ok(TypeName(file_type(name).ok_or_else(|| name.into())))
            }
        }
        deserializer.deserialize_str(Name)
    }
}

struct Shape(Vec<u64>);

impl<'de> Deserialize<'de> for Shape {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Dims;
        impl<'de> Visitor<'de> for Dims {
            type Value = Shape;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an array of dimensions")
            }

            fn visit_seq<A: SeqAccess<'de>>(self, mut dims: A) -> Result<Shape, A::Error> {
                let mut shape = Vec::new();
                while shape.len() <= MAX_DIMS {
                    match dims.next_element()? {
                        Some(dim) => shape.push(dim),
                        None => return Ok(Shape(shape)),
                    }
                }
                while dims.next_element::<IgnoredAny>()?.is_some() {}
                Ok(Shape(shape))
            }
        }
        deserializer.deserialize_seq(Dims)
    }
}
