//! OpenAI's Responses: `/v1/responses`, whose answers are lists of items, and are stored so that the next request can
//! refer to the previous answer.

mod answer;
mod compact;
mod echoed_fields;
mod events;
mod input;
mod items;
mod request;
mod schema;
mod stored;
mod summary;
mod tools;

pub(crate) use self::answer::{answer, count};
pub(crate) use self::compact::compact;
pub(crate) use self::schema::{
    describe_answer, describe_cancel, describe_compact, describe_count, describe_delete,
    describe_input_items, describe_retrieve,
};
pub(crate) use self::stored::{cancel, delete, input_items, retrieve};
