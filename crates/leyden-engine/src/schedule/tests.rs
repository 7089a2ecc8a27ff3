mod fairness;
mod properties;
mod rows;
mod rules;
mod sim;
mod slo;
mod traces;
mod waits;
