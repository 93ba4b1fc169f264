//! Training gives the same bits every time and on every processor, learns something, and makes
//! scores that never rise with load.

#[cfg(test)]
mod tests {
    use walras_brain::Kernel;
    use walras_brain::data::{Row, Rows, Split};
    use walras_brain::features::NodeFeature;
    use walras_brain::label::LabelSettings;
    use walras_brain::model::{Learned, Model};
    use walras_brain::random;
    use walras_brain::train::{Kind, TrainError, TrainSettings, Trained, train, train_with};
    use walras_brain::verdict::Verdict;
    use walras_core::rng::Rng;

    fn rows(events: usize) -> Rows {
        let events = random::events(&mut Rng::from_seed(5), events, 4);
        Rows::of(&events, &LabelSettings::default())
    }

    fn settings(kind: Kind) -> TrainSettings {
        let mut settings = TrainSettings { kind, ..TrainSettings::default() };
        settings.mlp.epochs = 6;
        settings.trees.trees = 20;
        settings
    }

    /// Everything that was learned, bit by bit.
    fn bits(model: &Model) -> String {
        match &model.learned {
            Learned::Mlp(mlp) => {
                let numbers = mlp.weights().parts().concat();
                numbers.iter().map(|number| format!("{:x} ", number.to_bits())).collect()
            }
            Learned::Trees(trees) => format!("{:?} {:?}", trees.forest.trees(), trees.confidence),
        }
    }

    fn trained(kind: Kind) -> Trained {
        train(&rows(600), &settings(kind), &mut |_| {}).unwrap()
    }

    #[test]
    fn the_same_seed_gives_the_same_bits_on_any_kernel() {
        let rows = rows(300);
        for kind in [Kind::Mlp, Kind::Trees] {
            let settings = settings(kind);
            let once = train(&rows, &settings, &mut |_| {}).unwrap();
            for kernel in [Kernel::best(), Kernel::PORTABLE] {
                let again = train_with(kernel, &rows, &settings, &mut |_| {}).unwrap();
                assert!(bits(&once.model) == bits(&again.model), "{kind:?} {}", kernel.name());
                assert_eq!(once.rounds, again.rounds);
            }
        }
        let other = TrainSettings { seed: 43, ..settings(Kind::Mlp) };
        let other = train(&rows, &other, &mut |_| {}).unwrap();
        let usual = train(&rows, &settings(Kind::Mlp), &mut |_| {}).unwrap();
        assert!(bits(&other.model) != bits(&usual.model), "the seed matters");
    }

    #[test]
    fn training_learns_and_says_how_far_it_is() {
        for kind in [Kind::Mlp, Kind::Trees] {
            let mut told = 0;
            let settings = settings(kind);
            let rows = rows(600);
            let trained = train(&rows, &settings, &mut |_| told += 1).unwrap();
            assert_eq!(told, trained.rounds.len());
            let best =
                trained.rounds.iter().map(|round| round.validate).fold(f64::INFINITY, f64::min);
            let blind = error_of_the_mean(&rows, &trained.split);
            assert!(best < 0.8 * blind, "{kind:?}: {best}, where the mean alone has {blind}");
        }
    }

    /// The validating rows' weighted squared error of always saying the mean of the others.
    fn error_of_the_mean(rows: &Rows, split: &Split) -> f64 {
        let sum = |rows: &[Row], of: &dyn Fn(&Row) -> f64| -> f64 {
            rows.iter().map(|row| f64::from(row.weight) * of(row)).sum()
        };
        let (train, validate) =
            (&rows.rows[split.train.clone()], &rows.rows[split.validate.clone()]);
        let mean = sum(train, &|row| f64::from(row.label)) / sum(train, &|_| 1.0);
        let off = |row: &Row| (f64::from(row.label) - mean) * (f64::from(row.label) - mean);
        sum(validate, &off) / sum(validate, &|_| 1.0)
    }

    /// What never varied in training has taught nothing, however large it becomes later.
    #[test]
    fn what_never_varied_counts_for_nothing() {
        let still = [NodeFeature::CpuUtilization, NodeFeature::DiskIops];
        let mut rows = rows(400);
        for row in &mut rows.rows {
            row.node = row.node.with(still[0], 0.02).with(still[1], 7.0);
        }
        for kind in [Kind::Mlp, Kind::Trees] {
            let model = train(&rows, &settings(kind), &mut |_| {}).unwrap().model;
            let node = rows.rows[0].node;
            let nodes = [node, node.with(still[0], 1.0), node.with(still[1], 1e6)];
            let mut verdicts = [Verdict::NO_MODEL; 3];
            model.score(&rows.rows[0].pod, &nodes, &mut verdicts);
            assert_eq!(verdicts[0], verdicts[1], "{kind:?}");
            assert_eq!(verdicts[0], verdicts[2], "{kind:?}");
        }
    }

    #[test]
    fn it_stops_when_newer_rows_say_so() {
        let mut settings = settings(Kind::Trees);
        settings.trees.trees = 500;
        settings.trees.patience = 3;
        let trained = train(&rows(100), &settings, &mut |_| {}).unwrap();
        assert!(trained.rounds.len() < 500, "{}", trained.rounds.len());
        let Learned::Trees(trees) = &trained.model.learned else { panic!("trees") };
        assert_eq!(trees.forest.trees().len(), trained.rounds.len() - 3);
    }

    #[test]
    fn too_little_and_wrong_settings_are_refused() {
        let refused =
            |rows: &Rows, settings: &TrainSettings| train(rows, settings, &mut |_| {}).unwrap_err();
        let few = refused(&rows(19), &settings(Kind::Mlp));
        assert_eq!(few, TrainError::TooFew { found: 19 });
        let mut wrong = settings(Kind::Trees);
        wrong.trees.depth = 7;
        let told = refused(&rows(30), &wrong).to_string();
        assert_eq!(told, "depth: 7 is outside 1 to 6");
        let mut wrong = settings(Kind::Mlp);
        wrong.labels.outcome_trust = -1.0;
        let told = refused(&rows(30), &wrong).to_string();
        assert_eq!(told, "labels: outcome_trust: -1 is outside 0 to 1");
    }

    #[test]
    fn confidence_says_something_about_hits() {
        for kind in [Kind::Mlp, Kind::Trees] {
            let rows = rows(1500);
            let trained = train(&rows, &settings(kind), &mut |_| {}).unwrap();
            let (mut sure, mut unsure) = ((0_u32, 0_u32), (0_u32, 0_u32));
            let mut sum = 0.0;
            for row in &rows.rows[trained.split.test.clone()] {
                let mut verdict = [Verdict::NO_MODEL];
                trained.model.score(&row.pod, &[row.node], &mut verdict);
                let hit = (verdict[0].score - row.label * 100.0).abs() <= 10.0;
                let side = if verdict[0].confidence >= 0.7 { &mut sure } else { &mut unsure };
                side.0 += u32::from(hit);
                side.1 += 1;
                sum += f64::from(verdict[0].confidence);
            }
            println!("{kind:?}: sure {sure:?}, unsure {unsure:?}, sum {sum}");
            let share = |(hits, all): (u32, u32)| f64::from(hits) / f64::from(all.max(1));
            let all = share((sure.0 + unsure.0, sure.1 + unsure.1));
            let told = sum / f64::from(sure.1 + unsure.1);
            assert!((told - all).abs() < 0.1, "{kind:?}: {told} where {all} are hits");
            assert!(sure.1 == 0 || unsure.1 == 0 || share(sure) > share(unsure), "{kind:?}");
        }
    }

    #[test]
    fn confidence_and_score_are_trained_whatever_the_kind() {
        for kind in [Kind::Mlp, Kind::Trees] {
            let model = trained(kind).model;
            match model.learned {
                Learned::Mlp(mlp) => assert!(mlp.weights().is_finite()),
                Learned::Trees(trees) => assert!(trees.confidence.is_some()),
            }
        }
    }
}
