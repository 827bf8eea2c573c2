(* rs.rem3: Zhu and Blaschko, Improving Differentially Private SGD via Randomly Sparsified Gradients (RS), the version with Lemma 3.3: Remark 3.
   "RS introduces two factors: 1/kappa, (1 - r)/kappa. The noise term is reduced by (1 - r)/kappa while the remaining terms are enlarged by 1/kappa:
   a trade-off is established. The respective magnitude of Delta_sigma and other terms determines whether it is a gain or loss to apply RS."
   With any kappa in (1 - r, 1), as Theorem 3.5 has it, (1 - r)/kappa < 1 < 1/kappa. Refuted is the reading with the kappa of Lemma 3.3. *)
From kernel Require Import definitions lemmas.

From kernel Require Import rs.lem3_3.
(* reduced and enlarged, for the kappa that equation 11 of Lemma 3.3 determines, at r > 0 *)
Definition reading : Prop := forall d k C w p kappa, assumed d k C w p ->
  with_mask d k C w p = kappa * without C w p -> share d k / kappa < 1 /\ 1 / kappa > 1.
(* the right side of Theorem 3.5 without bias at learning rate g: A = G C^2 / 2, D = Delta_sigma, x = 1 - r *)
Definition bound (kappa x Delta A D T g : R) : R := 1 / kappa * (Delta / (g * T) + g * A) + x / kappa * (g * D).
(* kappa <= sqrt(1 - r): at every learning rate some other one without a mask has a bound that is no larger, whatever the noise D *)
Definition correction : Prop := forall kappa x Delta A D T, 0 < x <= 1 -> 0 < kappa <= sqrt x ->
  0 <= Delta -> 0 <= A -> 0 <= D -> 0 < T ->
  forall g, 0 < g -> exists g', 0 < g' /\ bound 1 1 Delta A D T g' <= bound kappa x Delta A D T g.

(* at kappa = 1 - r, the counterexample of rs.lem3.3, no noise is saved *)
Theorem reading_is_false : ~ reading.
Proof.
  intro claim. specialize (claim _ _ _ _ _ (1 / 4) satisfiable).
  assert (n0 : norm [0; 0; 0; 0] = 0) by norm_of. assert (n4 : norm [4; 0; 0; 0] = 4) by norm_of.
  unfold with_mask, without, h, chance, still, avg, E in claim. simpl in claim.
  rewrite n0, n4, !below_true in claim by lra. rewrite !(Rmin_right 4), !(Rmin_left 0) in claim by lra.
  destruct claim as [a _]; [lra|]. unfold share in a; simpl in a. lra.
Qed.
Theorem correction_holds : correction.
Proof.
  intros kappa x Delta A D T [x0 x1] [k0 k1] D0 A0 D'0 T0 g g0. exists (sqrt x * g).
  assert (s0 : 0 < sqrt x) by (apply sqrt_lt_R0; exact x0). split; [nra|]. unfold bound.
  assert (ex : sqrt x * sqrt x = x) by (apply sqrt_sqrt; lra). set (s := sqrt x) in *.
  assert (s1 : s <= 1) by nra.
  set (Y := Delta / (g * T)). assert (0 <= Y) by (apply Rmult_le_pos; [exact D0 | apply Rlt_le, Rinv_0_lt_compat; nra]).
  replace (Delta / (s * g * T)) with (Y / s) by (unfold Y; field; lra).
  replace (1 / 1 * (Y / s + s * g * A) + 1 / 1 * (s * g * D)) with (/ s * (Y + s * s * (g * A) + s * s * (g * D))) by (field; lra).
  rewrite ex. replace (1 / kappa * (Y + g * A) + x / kappa * (g * D)) with (/ kappa * (Y + g * A + x * (g * D))) by (field; lra).
  assert (0 <= g * A) by nra. assert (0 <= g * D) by nra.
  assert (/ s <= / kappa) by (apply Rinv_le_contravar; assumption). assert (0 < / s) by (apply Rinv_0_lt_compat; exact s0).
  apply Rmult_le_compat; nra.
Qed.
