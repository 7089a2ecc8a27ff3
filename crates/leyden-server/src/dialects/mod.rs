//! The interfaces of other servers: one file each, with all its endpoints, which are rows in the table of routes.

pub(crate) mod openai;
