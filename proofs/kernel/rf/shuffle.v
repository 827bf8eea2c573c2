(* rf.shuffle: Differentially private SGD with sparse gradients (RF), anonymous submission under double-blind review: section 4, Privacy budget; RS, section 6 and Appendix K.
   "each iteration of training is (eps, delta)-differentially private with respect to a batch of training data, while shuffling and partitioning the dataset into batches
   implies that each iteration is (O(q eps), q delta)-differentially private with respect to the full dataset according to the privacy amplification theorem", q = B/N.
   Of an iteration by itself it holds (`correction`, in this family). Refuted is the reading that composing the losses of all iterations needs: each iteration given
   the outputs of the earlier ones of its epoch.
   Doubts: (i) O(q eps) is read with the constant of the theorem, 1 + q (e^eps - 1); for bounded eps a larger constant repairs this family. (ii) The paper composes by
   Renyi differential privacy and does not say that it conditions on earlier outputs. (iii) The mechanism here is randomised response on batches of one record, with
   delta = 0, not the Gaussian one. *)
From kernel Require Import definitions lemmas.

(* Amplification with its constant: a step that is eps-private for its batch has ratios of at most 1 + q (e^eps - 1).
   N = 2 records of one bit, batches of one, each released by randomised response: true with chance a, else flipped. *)
Definition tells (a : R) (x y : bool) : R := if Bool.eqb x y then a else 1 - a.
(* the law of both outputs y, y' of an epoch on the records x, x' in a random order *)
Definition epoch (a : R) (x x' y y' : bool) : R := (tells a x y * tells a x' y' + tells a x' y * tells a x y') / 2.
Definition first (a : R) x x' y : R := epoch a x x' y true + epoch a x x' y false.
Definition second (a : R) x x' y y' : R := epoch a x x' y y' / first a x x' y.      (* of y', given the first output y *)
Definition factor (a q : R) : R := 1 + q * (a / (1 - a) - 1).
(* amplified by itself, and given what the epoch has put out before *)
Definition reading : Prop := forall a, 1 / 2 < a < 1 -> forall x x' z y y',           (* z replaces x *)
  first a z x' y <= factor a (1 / 2) * first a x x' y /\ second a z x' y y' <= factor a (1 / 2) * second a x x' y y'.
(* the first iteration is amplified; an epoch as a whole is as private as one release, without amplification *)
Definition correction : Prop := forall a, 1 / 2 < a < 1 -> forall x x' z y y',
  first a z x' y <= factor a (1 / 2) * first a x x' y /\ epoch a z x' y y' <= a / (1 - a) * epoch a x x' y y'.

(* a = 3/4 (e^eps = 3), records 1, 1 against 0, 1, first output 1, second 0: 5/8 against 1/4, where the amplified factor is 2 *)
Theorem reading_is_false : ~ reading.
Proof.
  intro claim. destruct (claim (3 / 4) ltac:(lra) true true false true false) as [_ h].
  unfold second, first, epoch, tells, factor in h. simpl in h. lra.
Qed.
Lemma first_is a x x' y : first a x x' y = (tells a x y + tells a x' y) / 2.
Proof. unfold first, epoch, tells. destruct x, x', y; simpl; field. Qed.
Theorem correction_holds : correction.
Proof.
  intros a [a0 a1] x x' z y y'. remember (1 - a) as u eqn:eu. remember (a / u) as E eqn:eE. assert (u0 : 0 < u) by lra.
  assert (f : a = E * u) by (rewrite eE; field; lra).
  assert (g : 1 <= E) by (apply (Rmult_le_reg_r u); [exact u0|]; lra). clear eE.
  assert (tt : forall b c, tells a b c = u * (if Bool.eqb b c then E else 1)).
  { intros b c. unfold tells. rewrite <- eu. destruct (Bool.eqb b c); [rewrite f; ring | ring]. }
  split.
  - rewrite !first_is, !tt. unfold factor. rewrite <- eu. replace (a / u) with E by (rewrite f; field; lra). destruct x, x', z, y; simpl; nra.
  - unfold epoch. rewrite !tt. assert (0 < u * u) by nra.
    assert (k : forall p q, p <= E * q -> u * u * p / 2 <= E * (u * u * q / 2)) by (intros; nra).
    match goal with |- ?l <= _ * ?r => set (L := l); set (R' := r) end.
    assert (eL : exists p, L = u * u * p / 2 /\ exists q, R' = u * u * q / 2 /\ p <= E * q).
    { unfold L, R'. destruct x, x', z, y, y'; simpl; eexists; (split; [|eexists; split; [|]]);
      try (match goal with |- (u * ?A * (u * ?B) + u * ?C * (u * ?D)) / 2 = _ => instantiate (1 := A * B + C * D); field end); nra. }
    destruct eL as (p & -> & q & -> & h). apply k, h.
Qed.
