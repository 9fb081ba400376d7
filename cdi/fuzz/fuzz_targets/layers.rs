//! A hostile file as a stream: layers peeled, format told, disk rebuilt, all of it bounded.
#![no_main]

#[path = "../src/layers.rs"]
mod layers;
#[path = "../src/pack.rs"]
#[allow(dead_code, reason = "each target uses its part")]
mod pack;
#[path = "../src/read.rs"]
mod read;
#[path = "../src/repair.rs"]
mod repair;

libfuzzer_sys::fuzz_target!(|data: &[u8]| layers::layers(data));
