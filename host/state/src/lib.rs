//! Commands, codec, apply and snapshot of the PicoMQ metadata log.
