//! Moves of cash between partitions that bring it where it is wanted: arithmetic alone.

use weir_types::PartitionId;

/// Cash to move from one partition to another.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Move {
    pub(super) from: PartitionId,
    pub(super) to: PartitionId,
    /// Above zero.
    pub(super) cash: i128,
}

/// Returns the moves after which each partition has its share of the free cash by weight; what does
/// not divide goes to the first one with a weight. A partition takes part in one move less than
/// there are partitions at most. Nothing moves where there is nothing to share, or no weight.
pub(super) fn rebalancing(free: &[(PartitionId, i128)], weights: &[u32]) -> Vec<Move> {
    let all: i128 = free.iter().map(|(_, cash)| cash).sum();
    let weight: i128 = weights.iter().map(|weight| i128::from(*weight)).sum();
    if all <= 0 || weight == 0 {
        return Vec::new();
    }
    // The quotient first, since a product of the highest cash and weight exceeds 128 bits.
    let share = |of: u32| all / weight * i128::from(of) + all % weight * i128::from(of) / weight;
    let mut wanted: Vec<i128> = weights.iter().map(|weight| share(*weight)).collect();
    let rest = all - wanted.iter().sum::<i128>();
    if let Some(first) = weights.iter().position(|weight| *weight > 0) {
        wanted[first] += rest;
    }
    let mut surplus: Vec<(PartitionId, i128)> =
        free.iter().zip(&wanted).map(|((id, cash), wanted)| (*id, cash - wanted)).collect();
    let mut moves = Vec::new();
    while let Some(giver) = extreme(&surplus, true).filter(|at| surplus[*at].1 > 0) {
        let taker = extreme(&surplus, false).expect("a surplus here is a lack elsewhere");
        let cash = surplus[giver].1.min(-surplus[taker].1);
        surplus[giver].1 -= cash;
        surplus[taker].1 += cash;
        moves.push(Move { from: surplus[giver].0, to: surplus[taker].0, cash });
    }
    moves
}

/// Returns the moves that fill the partitions with less than `below` up to `fill_to`, the emptiest
/// first, from the one with most, which keeps `below` itself. A partition is filled less where the
/// others have no more to give.
pub(super) fn topping_up(free: &[(PartitionId, i128)], below: i128, fill_to: i128) -> Vec<Move> {
    let mut cash = free.to_vec();
    let mut moves = Vec::new();
    while let (Some(taker), Some(giver)) = (extreme(&cash, false), extreme(&cash, true)) {
        if cash[taker].1 >= below || cash[giver].1 <= below {
            break;
        }
        let moved = (fill_to - cash[taker].1).min(cash[giver].1 - below);
        if moved <= 0 {
            break;
        }
        cash[giver].1 -= moved;
        cash[taker].1 += moved;
        moves.push(Move { from: cash[giver].0, to: cash[taker].0, cash: moved });
    }
    moves
}

/// Returns the place of the most cash, or of the least; the first of equals.
fn extreme(cash: &[(PartitionId, i128)], is_most: bool) -> Option<usize> {
    let key = |at: &usize| if is_most { -cash[*at].1 } else { cash[*at].1 };
    (0..cash.len()).min_by_key(key)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn ids(cash: &[i128]) -> Vec<(PartitionId, i128)> {
        (1..).zip(cash).map(|(id, cash)| (PartitionId(id), *cash)).collect()
    }

    fn after(free: &[(PartitionId, i128)], moves: &[Move]) -> Vec<i128> {
        let mut cash: Vec<i128> = free.iter().map(|(_, cash)| *cash).collect();
        for one in moves {
            assert!(one.cash > 0 && one.from != one.to, "{one:?}");
            cash[usize::from(one.from.0) - 1] -= one.cash;
            cash[usize::from(one.to.0) - 1] += one.cash;
        }
        cash
    }

    #[test]
    fn cash_is_shared_by_weight_and_the_rest_goes_to_the_first() {
        let free = ids(&[1_000, 1, 0]);
        assert_eq!(after(&free, &rebalancing(&free, &[1, 1, 1])), [335, 333, 333]);
        assert_eq!(after(&free, &rebalancing(&free, &[0, 3, 1])), [0, 751, 250]);
        assert_eq!(rebalancing(&free, &[0, 0, 0]), []);
        assert_eq!(rebalancing(&ids(&[-5, 5]), &[1, 1]), [], "nothing is left to share");
        // A debt is paid by the others.
        let owing = ids(&[-100, 300]);
        assert_eq!(after(&owing, &rebalancing(&owing, &[1, 1])), [100, 100]);
    }

    #[test]
    fn the_emptiest_are_filled_first_and_nobody_gives_what_it_needs() {
        let free = ids(&[5, 1_000, 0]);
        assert_eq!(after(&free, &topping_up(&free, 10, 50)), [50, 905, 50]);
        let poor = ids(&[0, 12, 11]);
        assert_eq!(after(&poor, &topping_up(&poor, 10, 50)), [3, 10, 10]);
        assert_eq!(topping_up(&ids(&[10, 10]), 10, 50), [], "at the mark nothing lacks");
        assert_eq!(topping_up(&ids(&[3, 4]), 10, 50), [], "nobody has enough");
    }

    proptest! {
        #[test]
        fn rebalanced_cash_is_as_wanted_in_few_moves(
            cash in prop::collection::vec(-1i128 << 95..1i128 << 95, 1..9),
            weights in prop::collection::vec(prop_oneof![Just(0), 1..9u32, any::<u32>()], 9),
        ) {
            let free = ids(&cash);
            let weights = &weights[..free.len()];
            let moves = rebalancing(&free, weights);
            prop_assert!(moves.len() < free.len());
            let now = after(&free, &moves);
            prop_assert_eq!(now.iter().sum::<i128>(), cash.iter().sum::<i128>());
            let all: i128 = cash.iter().sum();
            let weight: i128 = weights.iter().map(|weight| i128::from(*weight)).sum();
            if all > 0 && weight > 0 {
                for (have, of) in now.iter().zip(weights) {
                    let fair = all / weight * i128::from(*of);
                    // The quotient's rest, and of the first one all that does not divide.
                    let slack = i128::from(*of) + weights.len() as i128 + 1;
                    prop_assert!((fair..=fair + slack).contains(have), "{} of {}", have, fair);
                }
            }
        }

        #[test]
        fn topping_up_takes_below_the_mark_from_nobody_and_fills_beyond_it_nobody(
            cash in prop::collection::vec(-200i128..2_000, 1..9),
            below in 0i128..300,
            more in 0i128..300,
        ) {
            let free = ids(&cash);
            let now = after(&free, &topping_up(&free, below, below + more));
            prop_assert_eq!(now.iter().sum::<i128>(), cash.iter().sum::<i128>());
            for (was, is) in cash.iter().zip(&now) {
                let least = (*was).min(below);
                prop_assert!(*is >= least, "{} of {}", is, was);
                prop_assert!(*is <= (*was).max(below + more));
            }
            let lacks = now.iter().any(|cash| *cash < below);
            prop_assert!(!lacks || now.iter().all(|cash| *cash <= below));
        }
    }
}
