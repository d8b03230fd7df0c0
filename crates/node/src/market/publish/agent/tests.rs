//! What the agent makes of ended epochs; what it sends is tested on real nodes.

use weir_types::Position;

use super::*;

#[test]
fn an_epoch_lives_on_as_far_as_no_later_loss_reaches_back() {
    let end =
        |epoch, last_valid| EpochEnd { epoch: Epoch(epoch), last_valid: Position(last_valid) };
    let ended = vec![end(1, 10), end(2, 30), end(3, 20), end(5, 40)];
    let lived: Vec<_> = lived_on(ended).into_iter().collect();
    assert_eq!(lived, [end(1, 10), end(2, 20), end(3, 20), end(5, 40)]);
    assert!(lived_on(Vec::new()).is_empty());
}
