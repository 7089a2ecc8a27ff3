//! [`Header`]: the JSON before the data, parsed into a description of each tensor.

use std::cell::RefCell;
use std::fmt;

use serde::de::{
    Deserialize, DeserializeSeed, Deserializer, Error as _, IgnoredAny, MapAccess, SeqAccess, Visitor,
};

use super::super::gguf::check_name;
use super::super::json::json_error;
use super::super::{MAX_KEYS, MAX_TENSORS};
use crate::DType;
use crate::dtype::FileType;
use crate::error::{Error, ErrorKind};

use super::MAX_DIMS;

const METADATA: &str = "__metadata__";

/// Types by their names in a header. A block is the smallest number of values that fills whole bytes.
const TYPES: [(&str, Kind); 22] = [
    ("F32", Kind::Ours(DType::F32)),
    ("F16", Kind::Ours(DType::F16)),
    ("BF16", Kind::Ours(DType::BF16)),
    // Ids are those of GGUF, where GGUF has the type.
    ("F64", Kind::Foreign(28, 1, 8)),
    ("I8", Kind::Foreign(24, 1, 1)),
    ("I16", Kind::Foreign(25, 1, 2)),
    ("I32", Kind::Foreign(26, 1, 4)),
    ("I64", Kind::Foreign(27, 1, 8)),
    ("BOOL", Kind::Foreign(1 << 31, 1, 1)),
    ("U8", Kind::Foreign(1 << 31 | 1, 1, 1)),
    ("U16", Kind::Foreign(1 << 31 | 2, 1, 2)),
    ("U32", Kind::Foreign(1 << 31 | 3, 1, 4)),
    ("U64", Kind::Foreign(1 << 31 | 4, 1, 8)),
    ("C64", Kind::Foreign(1 << 31 | 5, 1, 8)),
    ("F8_E4M3", Kind::Foreign(1 << 31 | 6, 1, 1)),
    ("F8_E5M2", Kind::Foreign(1 << 31 | 7, 1, 1)),
    ("F8_E8M0", Kind::Foreign(1 << 31 | 8, 1, 1)),
    ("F8_E4M3FNUZ", Kind::Foreign(1 << 31 | 9, 1, 1)),
    ("F8_E5M2FNUZ", Kind::Foreign(1 << 31 | 10, 1, 1)),
    ("F6_E2M3", Kind::Foreign(1 << 31 | 11, 4, 3)),
    ("F6_E3M2", Kind::Foreign(1 << 31 | 12, 4, 3)),
    ("F4", Kind::Foreign(1 << 31 | 13, 2, 1)),
];

#[derive(Clone, Copy)]
enum Kind {
    Ours(DType),
    /// Type id, values and bytes of a block.
    Foreign(u32, usize, usize),
}

pub(in super::super) fn file_type(name: &str) -> Option<FileType> {
    let &(name, kind) = TYPES.iter().find(|row| row.0 == name)?;
    Some(match kind {
        Kind::Ours(dtype) => dtype.file_type(),
        Kind::Foreign(id, block_len, block_bytes) => {
            FileType { id, name, dtype: None, block_len, block_bytes }
        }
    })
}

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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn types_have_names_numbers_and_sizes_of_their_own() {
        let mut ids: Vec<u32> = TYPES.iter().map(|row| file_type(row.0).unwrap().id).collect();
        ids.sort_unstable();
        ids.dedup();
        assert_eq!(ids.len(), TYPES.len());
        for (name, _) in TYPES {
            let ty = file_type(name).unwrap();
            assert_eq!((ty.name, ty.dtype.is_some()), (name, ["F32", "F16", "BF16"].contains(&name)));
            // Types that GGUF has too must agree with it.
            if let Ok(known) = FileType::from_gguf_id(ty.id) {
                assert_eq!(
                    (known.name, known.block_len, known.block_bytes),
                    (name, ty.block_len, ty.block_bytes)
                );
            }
        }
    }
}
