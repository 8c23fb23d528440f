//! The places where the two releases of clark-agent differ for this program. Scenarios that only one of them can play
//! are marked in `scenarios/mod.rs`.

use crate::truth::Fate;
use clark_agent::AgentBuilder;

/// Doubles a limit of output tokens as often as needed: configured in 0.2.0, built in later.
#[cfg(not(feature = "newest"))]
pub fn escalate(builder: AgentBuilder, limit: u32) -> AgentBuilder {
    builder
        .max_output_tokens(limit)
        .max_output_tokens_recovery(clark_agent::MaxTokensRecovery::doubling())
}

#[cfg(feature = "newest")]
pub fn escalate(builder: AgentBuilder, limit: u32) -> AgentBuilder {
    builder.max_output_tokens(limit)
}

/// Whether the loop repeats a model call that failed for a passing reason. 0.2.0 leaves that to the transport.
pub const REPEATS_PASSING_FAILURES: bool = cfg!(feature = "newest");

/// Whether the loop tells a model that talks where it should call as often as needed. 0.2.0 does it twice.
pub const NUDGES_FOREVER: bool = cfg!(feature = "newest");

/// What becomes of a call behind one that failed and declared that others depend on it.
pub const SIBLING_AFTER_FAILURE: Fate = if cfg!(feature = "newest") {
    Fate::Skipped
} else {
    Fate::Runs
};
