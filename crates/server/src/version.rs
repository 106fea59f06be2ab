//! The version of Redis whose dialect the server speaks.

/// The Redis version whose replies the server gives. Clients select features by it.
pub const REDIS_VERSION: &str = "7.0.15";
