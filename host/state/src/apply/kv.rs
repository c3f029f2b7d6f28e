//! The replicated map of keys.

use std::sync::Arc;

use super::{changed, changed_if, unchanged};
use crate::state::State;
use crate::{Applied, Value};

fn bytes(value: &[u8]) -> Value {
    Value::Bytes(Some(value.to_vec()))
}

impl State {
    pub(super) fn put_kv(&mut self, key: &str, value: &[u8]) -> Applied {
        let differs = self.kv.get(key).is_none_or(|known| **known != *value);
        if differs {
            self.kv.insert(Arc::from(key), Arc::from(value));
        }
        changed_if(differs, bytes(value))
    }

    pub(super) fn put_kv_if_absent(&mut self, key: &str, value: &[u8]) -> Applied {
        if let Some(known) = self.kv.get(key) {
            return unchanged(bytes(known));
        }
        self.kv.insert(Arc::from(key), Arc::from(value));
        changed(bytes(value))
    }

    pub(super) fn delete_kv(&mut self, key: &str) -> Applied {
        match self.kv.remove(key) {
            Some(value) => changed(bytes(&value)),
            None => unchanged(Value::Bytes(None)),
        }
    }
}
