//! Both kernels agree, refuse what is no number, and allocate nothing.
//!
//! The perceptron's kernels differ in rounding: the one for AVX2 fuses products and sums. They
//! agree within 0.01 points and 0.0001 of confidence. Trees agree to the bit.

#[cfg(test)]
mod tests {
    use walras_brain::features::{Filler, NodeFacts, NodeFeature, Order};
    use walras_brain::model::{Learned, Model, Trees};
    use walras_brain::verdict::{Basis, Verdict};
    use walras_brain::{Kernel, random};
    use walras_core::rng::Rng;

    const POINTS: f32 = 0.01;
    const CONFIDENCE: f32 = 1e-4;

    fn models(rng: &mut Rng) -> Vec<Model> {
        let mlp = Learned::Mlp(random::mlp(rng));
        let mut models =
            vec![Model { order: Order::Document, filler: Filler::Typical, learned: mlp }];
        for (filler, depth) in [(Filler::Nan, 6), (Filler::Typical, 3), (Filler::Nan, 8)] {
            let forest = random::forest(rng, 20, depth);
            assert_eq!(forest.is_packed(), depth <= 6, "{depth} levels");
            let learned = Learned::Trees(Trees { forest, confidence: None });
            models.push(Model { order: Order::Kubeattention, filler, learned });
        }
        models
    }

    fn scored(model: &Model, kernel: Kernel, nodes: &[NodeFacts], seed: u64) -> Vec<Verdict> {
        let pod = random::pod(&mut Rng::from_seed(seed));
        let mut verdicts = vec![Verdict::NO_MODEL; nodes.len()];
        model.score_with(kernel, &pod, nodes, &mut verdicts);
        verdicts
    }

    #[test]
    fn both_kernels_agree() {
        println!("the fast kernel is {}", Kernel::best().name());
        for seed in 1..=40 {
            let mut rng = Rng::from_seed(seed);
            for model in models(&mut rng) {
                let count = usize::try_from(rng.below(100)).unwrap();
                let nodes = random::nodes(&mut rng, count);
                let portable = scored(&model, Kernel::PORTABLE, &nodes, seed);
                let fast = scored(&model, Kernel::best(), &nodes, seed);
                for (portable, fast) in portable.iter().zip(&fast) {
                    match model.learned {
                        Learned::Trees(_) => assert_eq!(portable, fast, "seed {seed}"),
                        Learned::Mlp(_) => {
                            let apart = (portable.score - fast.score).abs();
                            assert!(apart <= POINTS, "seed {seed}: {portable:?} {fast:?}");
                            let apart = (portable.confidence - fast.confidence).abs();
                            assert!(apart <= CONFIDENCE, "seed {seed}: {portable:?} {fast:?}");
                        }
                    }
                }
            }
        }
    }

    #[test]
    fn packed_trees_are_the_trees_they_were() {
        for seed in 1..=40 {
            let mut rng = Rng::from_seed(seed);
            let forest = random::forest(&mut rng, 50, 6);
            let pod = random::pod(&mut Rng::from_seed(seed));
            let nodes = random::nodes(&mut rng, 70);
            let learned = Learned::Trees(Trees { forest: forest.clone(), confidence: None });
            let model = Model { order: Order::Document, filler: Filler::Nan, learned };
            let verdicts = scored(&model, Kernel::best(), &nodes, seed);
            let pod = walras_brain::features::pod_vector(&pod);
            for (node, verdict) in nodes.iter().zip(verdicts) {
                let node = walras_brain::features::node_vector(node, Order::Document, Filler::Nan);
                let mut input = [0.0; 26];
                input[..15].copy_from_slice(&node.unwrap());
                input[15..].copy_from_slice(&pod);
                let expected = (forest.label(forest.sum(&input)) * 100.0).clamp(0.0, 100.0);
                assert_eq!(verdict.score.to_bits(), expected.to_bits(), "seed {seed}");
            }
        }
    }

    #[test]
    fn a_node_without_numbers_is_refused_alone() {
        for seed in 1..=10 {
            let mut rng = Rng::from_seed(seed);
            for model in models(&mut rng) {
                let good = random::nodes(&mut rng, 50);
                let mut bad = good.clone();
                for (place, value) in [(0, f64::NAN), (23, f64::INFINITY), (49, f64::NEG_INFINITY)]
                {
                    bad[place] = bad[place].with(NodeFeature::DiskIoWaitMs, value);
                }
                let expected = scored(&model, Kernel::best(), &good, seed);
                let found = scored(&model, Kernel::best(), &bad, seed);
                for (place, (expected, found)) in expected.iter().zip(&found).enumerate() {
                    if [0, 23, 49].contains(&place) {
                        assert!(matches!(found.basis, Basis::Refused(_)), "{found:?}");
                        assert_eq!((found.score, found.confidence), (50.0, 0.0));
                    } else {
                        assert_eq!(expected, found, "seed {seed}, node {place}");
                    }
                }
            }
        }
    }

    #[test]
    fn scoring_allocates_nothing() {
        let mut rng = Rng::from_seed(1);
        for model in models(&mut rng) {
            let nodes = random::nodes(&mut rng, 1000);
            let pod = random::pod(&mut rng);
            let mut verdicts = vec![Verdict::NO_MODEL; nodes.len()];
            let counted = allocation_counter::measure(|| {
                model.score(&pod, &nodes, &mut verdicts);
                model.score_with(Kernel::PORTABLE, &pod, &nodes, &mut verdicts);
            });
            assert_eq!(counted.count_total, 0, "{}", model.kind());
        }
    }
}
