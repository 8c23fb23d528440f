//! What a model can say, and what a run says of itself.

use crate::model::*;
use crate::stage::*;

pub async fn simple_text(stage: Stage) {
    let identity = stage.identity("conv-simple-text");
    let stream = stage.stream("", Some(&identity));
    stage
        .run(Some(identity), &stream)
        .script(vec![vec![answer(vec![text(
            "High water at the bar is at 04:12, five metres and ten.",
        )])]])
        .play(vec![user("When is high water at the bar?")])
        .await;
}
