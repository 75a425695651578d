//! The examples as programs, against servers of their own.

mod dashboard;
mod fencing;
mod http;
mod postgres;
mod program;
mod web_service;
