(* rf.shuffle: Differentially private SGD with sparse gradients (RF), anonymous submission under double-blind review: section 4, Privacy budget; RS, section 6 and Appendix K.
   "Shuffling and partitioning the dataset into batches implies that each iteration is (O(q eps), q delta)-differentially private with respect to the full
   dataset", q = B/N; the losses of all iterations are then composed, which needs each iteration given the earlier ones. *)
From kernel Require Import definitions lemmas.

(* Amplification with its constant: a step that is eps-private for its batch has ratios of at most 1 + q (e^eps - 1).
   N = 2 records of one bit, batches of one, each released by randomised response: true with chance a, else flipped. *)
Definition tells (a : R) (x y : bool) : R := if Bool.eqb x y then a else 1 - a.
(* the law of both outputs y, y' of an epoch on the records x, x' in a random order *)
Definition epoch (a : R) (x x' y y' : bool) : R := (tells a x y * tells a x' y' + tells a x' y * tells a x y') / 2.
Definition first (a : R) x x' y : R := epoch a x x' y true + epoch a x x' y false.
Definition second (a : R) x x' y y' : R := epoch a x x' y y' / first a x x' y.      (* of y', given the first output y *)
Definition factor (a q : R) : R := 1 + q * (a / (1 - a) - 1).
Definition printed : Prop := forall a, 1 / 2 < a < 1 -> forall x x' z y y',           (* z replaces x *)
  first a z x' y <= factor a (1 / 2) * first a x x' y /\ second a z x' y y' <= factor a (1 / 2) * second a x x' y y'.
(* the first iteration is amplified; an epoch as a whole is as private as one release, without amplification *)
Definition correction : Prop := forall a, 1 / 2 < a < 1 -> forall x x' z y y',
  first a z x' y <= factor a (1 / 2) * first a x x' y /\ epoch a z x' y y' <= a / (1 - a) * epoch a x x' y y'.
