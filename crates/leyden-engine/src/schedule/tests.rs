mod fairness;
mod properties;
mod rules;
mod sim;
mod traces;
mod waits;
