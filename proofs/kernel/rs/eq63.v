(* rs.eq63: Zhu and Blaschko, Improving Differentially Private SGD via Randomly Sparsified Gradients (RS), the version with Lemma 3.3: Appendix B.3, eq. 63 and the text after eq. 76.
   P(|xi_t| < 3C/4) >= sqrt(1 - r) "is a sufficient but not necessary condition, which will be definitely satisfied as the network converges, i.e. |grad w| -> 0, |xi_t| -> 0."
   In full, with xi_t -> 0, it holds: that is the first half of `correction`. Refuted is the reading that the network converges where grad w -> 0 alone.
   Doubt: whether the paper's "i.e." defines convergence, or says what convergence brings. *)
From kernel Require Import definitions lemmas.

(* the examples' gradients are a finite law p; where the true gradient, their mean, is 0 the deviations are the gradients themselves *)
Definition reading : Prop := forall d k C (p : law vec), (0 < k < d)%nat -> 0 < C -> lawful p -> in_space d p ->
  mean_vector d p (fun v => v) = zero d -> sqrt (share d k) <= chance p (3 * C / 4) (fun v => v).
(* the deviations of step t, in probability *)
Definition vanish (p : nat -> law vec) : Prop :=
  forall c a, 0 < c -> a < 1 -> exists t0, forall t, (t0 <= t)%nat -> a <= chance (p t) c (fun v => v).
(* as the deviations go to 0 the condition is met from some step on; at one step a small second moment is enough *)
Definition correction : Prop :=
  (forall d k C (p : nat -> law vec), (0 < k < d)%nat -> 0 < C -> vanish p ->
  exists t0, forall t, (t0 <= t)%nat -> sqrt (share d k) <= chance (p t) (3 * C / 4) (fun v => v)) /\
  forall d k C (p : law vec), (0 < k < d)%nat -> 0 < C -> lawful p ->
  E p square <= 9 * C ^ 2 / 16 * (1 - sqrt (share d k)) -> sqrt (share d k) <= chance p (3 * C / 4) (fun v => v).

(* still deviations vanish *)
Lemma satisfiable : vanish (fun _ => [(1, [0; 0])]).
Proof. intros c a c0 a1. exists 0%nat. intros t _. unfold chance, E. simpl. assert (n0 : norm [0; 0] = 0) by norm_of. rewrite n0, below_true by lra. lra. Qed.
(* L(w) = E (w - x)^2 / 2, x = +-1, C = 1, in two dimensions along the first: at the minimum the gradients are +-1, and P = 0 *)
Definition at_minimum : law vec := [(1 / 2, [1; 0]); (1 / 2, [-1; 0])].
Theorem reading_is_false : ~ reading.
Proof.
  intro claim. specialize (claim 2%nat 1%nat 1 at_minimum ltac:(lia) ltac:(lra)).
  assert (n1 : norm [1; 0] = 1) by norm_of. assert (n1' : norm [-1; 0] = 1) by norm_of.
  assert (h : sqrt (share 2 1) <= 0).
  { replace 0 with (chance at_minimum (3 * 1 / 4) (fun v => v)).
    - apply claim; [lawful_by | repeat constructor |].
      cbv [mean_vector at_minimum sum map fold_right add zip scale fst snd zero repeat]. f_equal; [lra|]. f_equal; lra.
    - unfold chance, at_minimum, E; simpl. rewrite n1, n1', !below_false by lra. lra. }
  assert (0 < sqrt (share 2 1)) by (apply sqrt_lt_R0; unfold share; simpl; lra). lra.
Qed.
Theorem correction_holds : correction.
Proof.
  split.
  { intros d k C p [k0 kd] C0 v. apply (v (3 * C / 4) (sqrt (share d k))); [lra|]. rewrite <- sqrt_1. apply sqrt_lt_1_alt.
    pose proof (share_pos d k k0 ltac:(lia)). pose proof (share_lt d k kd). lra. }
  intros d k C p [k0 kd] C0 lp small. set (c := 3 * C / 4). assert (c0 : 0 < c) by (unfold c; lra).
  assert (cheb : E p (fun v => 1 + (-/ (c * c)) * square v) <= chance p c (fun v => v)).
  { apply E_le; [apply lp|]. intro v. unfold below. destruct (Rlt_dec (norm v) c) as [lt|ge].
    - pose proof (square_nonneg v). assert (0 < / (c * c)) by (apply Rinv_0_lt_compat; nra). nra.
    - assert (c * c <= square v) by (rewrite <- norm_norm; nra).
      assert (1 <= / (c * c) * square v).
      { apply (Rmult_le_reg_l (c * c)); [nra|]. rewrite <- Rmult_assoc, Rinv_r by nra. lra. }
      lra. }
  rewrite E_add, E_constant, E_scale in cheb by exact lp.
  assert (/ (c * c) * E p square <= 1 - sqrt (share d k)).
  { apply (Rmult_le_reg_l (c * c)); [nra|]. rewrite <- Rmult_assoc, Rinv_r by nra. unfold c in *. nra. }
  lra.
Qed.
