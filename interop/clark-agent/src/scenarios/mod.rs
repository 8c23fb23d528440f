//! One function per scenario.

mod answers;
mod children;
mod context;
mod endings;
mod gates;
mod input;
mod tool_calls;

use crate::stage::Stage;
use std::future::Future;
use std::pin::Pin;

type Play = Box<dyn FnOnce(Stage) -> Pin<Box<dyn Future<Output = ()>>>>;

pub struct Scenario {
    pub name: &'static str,
    pub play: Play,
}

fn scenario<F>(name: &'static str, play: impl FnOnce(Stage) -> F + 'static) -> Scenario
where
    F: Future<Output = ()> + 'static,
{
    let play: Play = Box::new(|stage| Box::pin(play(stage)));
    Scenario { name, play }
}

pub fn all() -> Vec<Scenario> {
    let mut all = vec![
        scenario("simple-text", answers::simple_text),
        scenario("multi-turn-tools", tool_calls::multi_turn),
        scenario("parallel-tools", tool_calls::parallel),
        scenario("sequential-tools", tool_calls::sequential),
        scenario("tool-errors", tool_calls::errors),
    ];
    all.extend(of_this_release());
    all
}

#[cfg(not(feature = "newest"))]
fn of_this_release() -> Vec<Scenario> {
    vec![]
}

#[cfg(feature = "newest")]
fn of_this_release() -> Vec<Scenario> {
    vec![]
}
