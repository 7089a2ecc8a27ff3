//! Tensors as files store them.

use crate::error::Error;
use crate::tensor::{Buffer, Data, ElementType, Tensor};
use leyden_tensor::{FileBytes, OnnxTensor, TensorInfo};
use std::sync::Arc;

/// Returns a tensor of a file; its values stay there where they can.
pub(crate) fn stored(info: &TensorInfo, bytes: FileBytes) -> Result<Tensor, Error> {
    let data = match ElementType::named(info.type_name) {
        Some(ElementType::F32) => Data::F32(Buffer::from_file(bytes)),
        Some(ElementType::F64) => Data::F64(Buffer::from_file(bytes)),
        Some(ElementType::F16) => Data::F16(Buffer::from_file(bytes)),
        Some(ElementType::BF16) => Data::BF16(Buffer::from_file(bytes)),
        Some(ElementType::I64) => Data::I64(Buffer::from_file(bytes)),
        Some(ElementType::I32) => Data::I32(Buffer::from_file(bytes)),
        Some(ElementType::I16) => Data::I16(Buffer::from_file(bytes)),
        Some(ElementType::I8) => Data::I8(Buffer::from_file(bytes)),
        Some(ElementType::U64) => Data::U64(Buffer::from_file(bytes)),
        Some(ElementType::U32) => Data::U32(Buffer::from_file(bytes)),
        Some(ElementType::U16) => Data::U16(Buffer::from_file(bytes)),
        Some(ElementType::U8) => Data::U8(Buffer::from_file(bytes)),
        Some(ElementType::Bool) => Data::Bool(Buffer::from_file(bytes)),
        Some(ElementType::Text) | None => {
            return Err(format!("values of type {} are not supported", info.type_name).into());
        }
    };
    Tensor::new(&info.shape, data)
}

/// Returns a tensor of an attribute or of a graph within a node.
pub(crate) fn tensor(tensor: &OnnxTensor) -> Result<Tensor, Error> {
    if tensor.info.type_name == "STRING" {
        let texts = tensor.texts.iter().map(|text| String::from_utf8(text.clone()));
        let texts = texts.collect::<Result<Vec<_>, _>>().map_err(|_| "a text is not valid UTF-8")?;
        return Tensor::new(&tensor.info.shape, Data::Text(Arc::new(texts)));
    }
    stored(&tensor.info, tensor.bytes.clone())
}
