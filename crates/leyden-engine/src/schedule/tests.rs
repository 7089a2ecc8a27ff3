mod fairness;
mod properties;
mod rows;
mod rules;
mod sim;
mod traces;
mod waits;
