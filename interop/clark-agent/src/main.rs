//! Writes and checks fixtures with the published clark-agent crate; see README.md beside this folder.

mod clock;
mod files;
mod model;
mod plugins;
mod release;
mod scenarios;
mod stage;
mod tools;
mod truth;

use std::path::Path;
use std::process::ExitCode;

const USAGE: &str = "usage: clark-interop generate DIR | check DIR | list";

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let outcome = match arguments.as_slice() {
        ["generate", folder] => files::generate(Path::new(folder)).map(|()| true),
        ["check", folder] => files::check(Path::new(folder)),
        ["list"] => {
            for scenario in scenarios::all() {
                println!("{}", scenario.name);
            }
            Ok(true)
        }
        _ => {
            eprintln!("{USAGE}");
            return ExitCode::from(2);
        }
    };
    match outcome {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("clark-interop: {error}");
            ExitCode::from(2)
        }
    }
}
