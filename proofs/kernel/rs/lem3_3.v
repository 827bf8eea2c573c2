(* rs.lem3.3: Zhu and Blaschko, Improving Differentially Private SGD via Randomly Sparsified Gradients (RS), the version with Lemma 3.3: Lemma 3.3.
   "Apply RS with sparsification rate r, choose p~ such that P(|xi| < 3C/4) >= sqrt(1 - r), then there is kappa in (1 - r, 1) such that
   E_m [P(|m xi| < 3C/4) h(w') |w'|] = kappa P(|xi| < 3C/4) h(w) |w|" (eq. 11), w' = m (.) w, h(v) = min(|v|, C/4), p~ symmetric. *)
From kernel Require Import definitions lemmas.

Definition h (C : R) (v : vec) : R := Rmin (norm v) (C / 4).
(* what the lemma assumes: k of d entries are kept, w is the gradient, p the law p~ of the deviation.
   w is not 0 and some entry is dropped: at w = 0 every kappa will do, at r = 0 the paper puts kappa = 1. *)
Definition assumed (d k : nat) (C : R) (w : vec) (p : law vec) : Prop :=
  (0 < k < d)%nat /\ 0 < C /\ length w = d /\ norm w <> 0 /\
  lawful p /\ in_space d p /\ symmetric p /\ sqrt (share d k) <= chance p (3 * C / 4) (fun v => v).
Definition with_mask d k C w p : R :=
  avg (masks d k) (fun m => chance p (3 * C / 4) (mask m) * h C (mask m w) * norm (mask m w)).
Definition without C w p : R := chance p (3 * C / 4) (fun v => v) * h C w * norm w.

Definition printed : Prop := forall d k C w p, assumed d k C w p ->
  exists kappa, share d k < kappa < 1 /\ with_mask d k C w p = kappa * without C w p.

(* the range is closed *)
Definition correction : Prop := forall d k C w p, assumed d k C w p ->
  exists kappa, share d k <= kappa <= 1 /\ with_mask d k C w p = kappa * without C w p.

Lemma h_scaled C n n' : 0 < C -> 0 <= n' <= n -> n' * n' * (Rmin n (C / 4) * n) <= Rmin n' (C / 4) * n' * (n * n).
Proof.
  intros C0 [a b]. assert (n' * Rmin n (C / 4) <= Rmin n' (C / 4) * n).
  { unfold Rmin. destruct (Rle_dec n (C / 4)), (Rle_dec n' (C / 4)); nra. }
  assert (0 <= n' * n) by nra. nra.
Qed.

(* kappa in [1 - r, 1]; the lower end needs no condition on p~ *)
Lemma lower d k C w p : (0 < k <= d)%nat -> 0 < C -> length w = d -> lawful p ->
  share d k * without C w p <= with_mask d k C w p.
Proof.
  intros [k0 kd] C0 e lp. unfold without, with_mask, h. set (P := chance p (3 * C / 4) (fun v => v)).
  pose proof (chance_range p (3 * C / 4) (fun v => v) lp) as [P0 _]. fold P in P0.
  destruct (Req_dec (norm w) 0) as [z|nz].
  { rewrite z, !Rmult_0_r. apply avg_nonneg, Forall_forall. intros m _.
    pose proof (chance_range p (3 * C / 4) (mask m) lp). pose proof (norm_nonneg (mask m w)).
    apply Rmult_le_pos; [apply Rmult_le_pos; [lra|]|assumption]. apply Rmin_glb; lra. }
  pose proof (norm_nonneg w) as n0. assert (0 < norm w) by lra.
  assert (S0 : 0 < square w) by (rewrite <- norm_norm; nra).
  replace (share d k * (P * Rmin (norm w) (C / 4) * norm w))
    with (P * (Rmin (norm w) (C / 4) * norm w) / square w * (share d k * square w)) by (field; lra).
  rewrite <- masked_square by (try assumption; lia). rewrite <- avg_scale. apply avg_le, Forall_forall. intros m _.
  pose proof (chance_mask p (3 * C / 4) m lp) as Pm. fold P in Pm.
  pose proof (norm_nonneg (mask m w)) as a. pose proof (norm_mask m w) as b.
  pose proof (h_scaled C (norm w) (norm (mask m w)) C0 (conj a b)) as hs.
  rewrite !norm_norm in hs. set (X := Rmin (norm (mask m w)) (C / 4) * norm (mask m w)) in *.
  assert (0 <= X) by (apply Rmult_le_pos; [apply Rmin_glb; lra | exact a]).
  rewrite (Rmult_assoc (chance p (3 * C / 4) (mask m))). fold X.
  apply Rle_trans with (P * X); [|apply Rmult_le_compat_r; assumption].
  replace (P * (Rmin (norm w) (C / 4) * norm w) / square w * square (mask m w))
    with (P * (square (mask m w) * (Rmin (norm w) (C / 4) * norm w) / square w)) by (field; lra).
  apply Rmult_le_compat_l; [exact P0|]. apply (Rmult_le_reg_r (square w)); [exact S0|].
  unfold Rdiv. rewrite Rmult_assoc, Rinv_l, Rmult_1_r by lra. exact hs.
Qed.

Lemma upper d k C w p : (0 < k <= d)%nat -> 0 < C -> length w = d -> lawful p ->
  sqrt (share d k) <= chance p (3 * C / 4) (fun v => v) -> with_mask d k C w p <= without C w p.
Proof.
  intros [k0 kd] C0 e lp cond. unfold without, with_mask, h in *. set (P := chance p (3 * C / 4) (fun v => v)) in *.
  pose proof (norm_nonneg w) as n0. assert (H0 : 0 <= Rmin (norm w) (C / 4) * norm w) by (apply Rmult_le_pos; [apply Rmin_glb; lra | exact n0]).
  apply Rle_trans with (sqrt (share d k) * (Rmin (norm w) (C / 4) * norm w)); [|rewrite Rmult_assoc; apply Rmult_le_compat_r; assumption].
  set (c := C / 4) in *. assert (0 < c) by (unfold c; lra).
  apply Rle_trans with (avg (masks d k) (fun m => Rmin (norm (mask m w)) c * norm (mask m w))).
  { apply avg_le, Forall_forall. intros m _. pose proof (chance_range p (3 * C / 4) (mask m) lp) as [_ P1].
    pose proof (norm_nonneg (mask m w)). rewrite Rmult_assoc. rewrite <- (Rmult_1_l (Rmin (norm (mask m w)) c * norm (mask m w))) at 2.
    apply Rmult_le_compat_r; [|exact P1]. apply Rmult_le_pos; [apply Rmin_glb; lra | assumption]. }
  pose proof (share_pos d k k0 ltac:(lia)) as x0. pose proof (share_le d k kd ltac:(lia)) as x1.
  assert (sx : share d k <= sqrt (share d k)).
  { rewrite <- (sqrt_sqrt (share d k)) at 1 by lra. assert (sqrt (share d k) <= 1) by (rewrite <- sqrt_1; apply sqrt_le_1_alt; lra).
    pose proof (sqrt_pos (share d k)). nra. }
  destruct (Rle_dec (norm w) c) as [le|gt].
  - rewrite (Rmin_left (norm w)) by exact le. rewrite norm_norm.
    apply Rle_trans with (share d k * square w).
    + rewrite <- masked_square by (try assumption; lia). apply avg_le, Forall_forall. intros m _.
      rewrite <- norm_norm. apply Rmult_le_compat_r; [apply norm_nonneg | apply Rmin_l].
    + apply Rmult_le_compat_r; [apply square_nonneg | exact sx].
  - rewrite (Rmin_right (norm w)) by lra.
    apply Rle_trans with (c * avg (masks d k) (fun m => norm (mask m w))).
    + rewrite <- avg_scale. apply avg_le, Forall_forall. intros m _. apply Rmult_le_compat_r; [apply norm_nonneg | apply Rmin_r].
    + pose proof (masked_norm_upper d k w (conj k0 kd) e). nra.
Qed.

Lemma without_pos d k C w p : assumed d k C w p -> 0 < without C w p.
Proof.
  intros ((k0 & kd) & C0 & e & nz & lp & _ & _ & cond). unfold without, h.
  pose proof (norm_nonneg w). assert (0 < norm w) by lra.
  assert (0 < sqrt (share d k)) by (apply sqrt_lt_R0, share_pos; lia).
  apply Rmult_lt_0_compat; [apply Rmult_lt_0_compat; [lra|]|assumption]. apply Rmin_glb_lt; lra.
Qed.

Theorem correction_holds : correction.
Proof.
  intros d k C w p A. pose proof (without_pos _ _ _ _ _ A) as W. destruct A as ((k0 & kd) & C0 & e & nz & lp & _ & _ & cond).
  pose proof (lower d k C w p ltac:(lia) C0 e lp). pose proof (upper d k C w p ltac:(lia) C0 e lp cond).
  exists (with_mask d k C w p / without C w p). split; [|field; lra]. split.
  - apply (Rmult_le_reg_r (without C w p)); [exact W|]. unfold Rdiv. rewrite Rmult_assoc, Rinv_l by lra. lra.
  - apply (Rmult_le_reg_r (without C w p)); [exact W|]. unfold Rdiv. rewrite Rmult_assoc, Rinv_l by lra. lra.
Qed.

(* the counterexample: four entries, one kept, C = 4, w = (4, 0, 0, 0), no deviation: kappa = 1/4 *)
Definition still : law vec := [(1, [0; 0; 0; 0])].
Lemma satisfiable : assumed 4 1 4 [4; 0; 0; 0] still.
Proof.
  assert (n0 : norm [0; 0; 0; 0] = 0) by norm_of. assert (n4 : norm [4; 0; 0; 0] = 4) by norm_of.
  repeat split; try lia; try lra.
  - repeat constructor; simpl; lra.
  - simpl; lra.
  - repeat constructor.
  - unfold symmetric, still, mirrored, opp; simpl. rewrite Ropp_0. apply Permutation_refl.
  - unfold chance, still, E; simpl. rewrite n0, below_true by lra.
    replace (share 4 1) with (1 / 2 * (1 / 2)) by (unfold share; simpl; field). rewrite sqrt_square; lra.
Qed.
Theorem printed_is_false : ~ printed.
Proof.
  intro claim. destruct (claim _ _ _ _ _ satisfiable) as (kappa & [low _] & e).
  assert (n0 : norm [0; 0; 0; 0] = 0) by norm_of. assert (n4 : norm [4; 0; 0; 0] = 4) by norm_of.
  unfold with_mask, without, h, chance, still, avg, E in e. simpl in e.
  rewrite n0, n4, !below_true in e by lra. rewrite !Rmin_right in e by lra. rewrite Rmin_left in e by lra.
  unfold share in low; simpl in low. lra.
Qed.
(* The remark after eq. 62 takes P(|m xi| < 3C/4) > P(|xi| < 3C/4) as natural. Under it, too, the lemma fails, at the other end: *)
(* four entries, one kept, C = 4, w = (2, 2, 2, 2), the deviation is +-w in half of the cases: kappa = 1 *)
Definition moving : law vec := [(1 / 4, [2; 2; 2; 2]); (1 / 4, [-2; -2; -2; -2]); (1 / 2, [0; 0; 0; 0])].
Lemma size_4 : norm [2; 2; 2; 2] = 4. Proof. norm_of. Qed.
Lemma size_4' : norm [-2; -2; -2; -2] = 4. Proof. norm_of. Qed.
Lemma size_0 : norm [0; 0; 0; 0] = 0. Proof. norm_of. Qed.
Lemma moving_satisfies : assumed 4 1 4 [2; 2; 2; 2] moving.
Proof.
  repeat split; try lia; try lra.
  - rewrite size_4; lra.
  - repeat constructor; simpl; lra.
  - simpl; lra.
  - repeat constructor.
  - unfold symmetric, moving, mirrored, opp; simpl. rewrite Ropp_0. replace (Ropp 2) with (-2) by lra. replace (Ropp (-2)) with 2 by lra. apply perm_swap.
  - unfold chance, moving, E; simpl. rewrite size_4, size_4', size_0, (below_true _ 0), !(below_false _ 4) by lra.
    replace (share 4 1) with (1 / 2 * (1 / 2)) by (unfold share; simpl; field). rewrite sqrt_square; lra.
Qed.
Lemma norm_one (l : list bool) v : In (l, v) [([true; false; false; false], 2); ([false; true; false; false], 2);
  ([false; false; true; false], 2); ([false; false; false; true], 2)] ->
  norm (mask l [2; 2; 2; 2]) = v /\ norm (mask l [-2; -2; -2; -2]) = v /\ norm (mask l [0; 0; 0; 0]) = 0.
Proof. simpl. intros [e|[e|[e|[e|[]]]]]; injection e as <- <-; repeat split; norm_of. Qed.
Lemma one : with_mask 4 1 4 [2; 2; 2; 2] moving = 2 /\ without 4 [2; 2; 2; 2] moving = 2.
Proof.
  split.
  - unfold with_mask, avg, masks. cbn [map app length total fold_right].
    unfold h, chance, moving, E. cbn [map total fold_right fst snd].
    repeat match goal with |- context [mask ?l [2; 2; 2; 2]] =>
      destruct (norm_one l 2 ltac:(simpl; tauto)) as (e1 & e2 & e3); rewrite ?e1, ?e2, ?e3; clear e1 e2 e3 end.
    rewrite (Rmin_right 2) by lra. rewrite !(below_true _ 2), !(below_true _ 0) by lra. simpl. lra.
  - unfold without, h, chance, moving, E; simpl. rewrite size_4, size_4', size_0, (below_true _ 0), !(below_false _ 4), Rmin_right by lra. lra.
Qed.
Theorem natural_is_false : ~ forall d k C w p, assumed d k C w p ->
  (forall m, In m (masks d k) -> chance p (3 * C / 4) (fun v => v) < chance p (3 * C / 4) (mask m)) ->
  exists kappa, share d k < kappa < 1 /\ with_mask d k C w p = kappa * without C w p.
Proof.
  intro claim. destruct (claim _ _ _ _ _ moving_satisfies) as (kappa & r & e).
  - intros m i. unfold chance, moving, E. cbn [map total fold_right fst snd].
    simpl in i. assert (j : In (m, 2) [([true; false; false; false], 2); ([false; true; false; false], 2);
      ([false; false; true; false], 2); ([false; false; false; true], 2)]).
    { destruct i as [<-|[<-|[<-|[<-|[]]]]]; simpl; tauto. }
    destruct (norm_one m 2 j) as (e1 & e2 & e3). rewrite e1, e2, e3, size_4, size_4', size_0.
    rewrite !(below_true _ 2), !(below_true _ 0), !(below_false _ 4) by lra. lra.
  - destruct one as [a b]. rewrite a, b in e. lra.
Qed.
