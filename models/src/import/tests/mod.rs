//! Tests of the import over small models made by hand.

mod evaluator;
