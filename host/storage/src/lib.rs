//! Object storage: key layout, bulk delete with an outcome per object.
