(* gip.a4: Improving differentially-private deep learning with gradients index pruning (GIP), anonymous submission under double-blind review: Appendix A.4, text after Proposition 3.
   As the index sensitivity is large, randomised response has p close to 1/2 and its output loses the meaning of pruning; meant, in a comparison of the two: the Mallows mechanism is better. *)
From kernel Require Import definitions lemmas.

From kernel Require Import gip.prop3 gip.thm1.
(* At the same budget and sensitivity both have the same theta = log(p / (1 - p)) = eps_2 / C_1. How much the output tells of the reference I0:
   the chance that a one of I0 is kept less the chance that a zero of it is turned into a one. *)
Definition one_at (j : nat) (I : list bool) : R := if nth j I false then 1 else 0.
Definition mallows_chance (d K : nat) (theta : R) (I0 : list bool) (j : nat) : R :=
  over_masks d K (fun I => mallows d K theta I0 I * one_at j I).
Definition contrast (d K : nat) (theta : R) (I0 : list bool) (i j : nat) : R :=
  mallows_chance d K theta I0 i - mallows_chance d K theta I0 j.
Definition response_contrast (p : R) : R := p - (1 - p).
Definition printed : Prop := forall d K p I0 i j, (0 < K < d)%nat -> 1 / 2 < p < 1 -> In I0 (masks d K) -> (i < d)%nat -> (j < d)%nat ->
  nth i I0 false = true -> nth j I0 false = false ->
  response_contrast p <= contrast d K (ln (p / (1 - p))) I0 i j.
(* given that its output has K ones, randomised response is the Mallows law, and at distance h both have the loss theta h *)
Definition correction : Prop := forall d K p I0 I, (K <= d)%nat -> 1 / 2 < p < 1 -> In I0 (masks d K) -> In I (masks d K) ->
  response p I0 I / over_masks d K (response p I0) = mallows d K (ln (p / (1 - p))) I0 I.

Lemma response_power p I0 I : 0 < p -> length I0 = length I -> response p I0 I = p ^ length I * ((1 - p) / p) ^ distance I I0.
Proof.
  intro p0. revert I; induction I0 as [|a I0 IH]; intros [|b I] l; try discriminate; [simpl; ring|]. cbn [response distance length].
  rewrite IH by (simpl in l; lia). destruct a, b; cbn [Bool.eqb plus pow]; field; lra.
Qed.
Lemma weight_power p h : 1 / 2 < p < 1 -> exp (- ln (p / (1 - p)) * INR h) = ((1 - p) / p) ^ h.
Proof.
  intros [a b]. assert (0 < p / (1 - p)) by (apply Rdiv_lt_0_compat; lra).
  replace ((1 - p) / p) with (exp (- ln (p / (1 - p)))); [rewrite exp_pow; f_equal; ring|].
  rewrite exp_Ropp, exp_ln by assumption. field; lra.
Qed.
Theorem correction_holds : correction.
Proof.
  intros d K p I0 I Kd hp i0 i. destruct (in_masks _ _ _ i0) as [l0 _], (in_masks _ _ _ i) as [l _]. unfold mallows.
  assert (w : forall J, In J (masks d K) -> response p I0 J = p ^ d * weight (ln (p / (1 - p))) I0 J).
  { intros J j. destruct (in_masks _ _ _ j) as [lJ _]. rewrite response_power by (try lra; congruence). unfold weight. rewrite weight_power by exact hp.
    rewrite lJ. reflexivity. }
  assert (s : over_masks d K (response p I0) = p ^ d * psi d K (ln (p / (1 - p))) I0).
  { unfold psi, over_masks. rewrite <- total_map_scale. apply total_map_ext, Forall_forall. exact w. }
  rewrite s, w by exact i. pose proof (psi_pos d K (ln (p / (1 - p))) I0 Kd). assert (0 < p ^ d) by (apply pow_lt; lra). field. lra.
Qed.
(* five entries, one kept, p = 5/9: the contrast of randomised response is 1/9, that of the Mallows law 9/89 *)
Lemma at_five h : exp (- ln (5 / 9 / (1 - 5 / 9)) * INR h) = (4 / 5) ^ h.
Proof. rewrite weight_power by lra. f_equal. field. Qed.
Theorem printed_is_false : ~ printed.
Proof.
  intro claim. specialize (claim 5%nat 1%nat (5 / 9) [true; false; false; false; false] 0%nat 1%nat ltac:(lia) ltac:(lra) ltac:(simpl; auto)
    ltac:(lia) ltac:(lia) eq_refl eq_refl).
  unfold contrast, mallows_chance, mallows, psi, over_masks, weight, response_contrast in claim.
  cbn [masks map app total fold_right distance Bool.eqb plus] in claim. rewrite !at_five in claim.
  unfold one_at in claim. cbn [nth] in claim. cbn [pow] in claim. lra.
Qed.
