//! Writes and checks fixtures with the published phi-core crate; see README.md beside this folder.

mod accept;
mod check;
#[cfg(feature = "long")]
mod long;
mod record;
mod release;
mod scenarios;
mod scripted;

use std::path::Path;
use std::process::ExitCode;

const USAGE: &str = "usage: phi-interop generate DIR | check DIR | accept FILE...
       phi-interop generate-long METADATA DIR | check-long METADATA DIR";

/// One thread: concurrent loops then take turns in a fixed order.
#[tokio::main(flavor = "current_thread")]
async fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let outcome = match arguments.as_slice() {
        ["generate", folder] => record::generate(Path::new(folder)).await.map(|()| true),
        ["check", folder] => check::check(Path::new(folder)).await,
        #[cfg(feature = "long")]
        ["generate-long", metadata, folder] => {
            let (metadata, folder) = (Path::new(metadata), Path::new(folder));
            long::generate(metadata, folder).await.map(|()| true)
        }
        #[cfg(feature = "long")]
        ["check-long", metadata, folder] => {
            long::check(Path::new(metadata), Path::new(folder)).await
        }
        ["accept", files @ ..] if !files.is_empty() => Ok(accept_all(files)),
        _ => {
            eprintln!("{USAGE}");
            return ExitCode::from(2);
        }
    };
    match outcome {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("phi-interop: {error}");
            ExitCode::from(2)
        }
    }
}

fn accept_all(files: &[&str]) -> bool {
    let mut all = true;
    for file in files {
        match accept::accept(file) {
            Ok(()) => println!("ok {file}"),
            Err(reason) => {
                println!("reject {file}: {reason}");
                all = false;
            }
        }
    }
    all
}
