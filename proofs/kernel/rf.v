From kernel Require Import definitions lemmas.
From kernel Require rs.

(* rf.clip_bias: Differentially private SGD with sparse gradients (RF), anonymous submission under double-blind review: section 2.3.
   "As fewer dimensions contribute to the norm computation, random freeze reduces the clipping probability and therefore alleviates clipping bias (Zhang et al., 2020)."
   Doubt: the paper does not define the clipping bias. It is read as the norm of what clipping takes from the mean of the masked gradient, on average over the masks;
   that the clipping probability falls is right. *)
Module clip_bias.
(* the bias of the clipped gradient of a finite law p, for the mask m: against the mean of what is clipped *)
Definition bias d C (p : law vec) (m : list bool) : R :=
  norm (sub (mean_vector d p (fun g => clip C (mask m g))) (mean_vector d p (mask m))).
Definition printed : Prop := forall d k C p, (0 < k <= d)%nat -> 0 < C -> lawful p -> in_space d p ->
  avg (masks d k) (fun m => bias d C p m) <= bias d C p (repeat true d).
(* what a mask never raises is E (|g| - C)+, which bounds the bias *)
Definition excess (C : R) (v : vec) : R := Rmax (norm v - C) 0.
Definition correction : Prop := forall d C p m, 0 < C -> lawful p -> in_space d p -> length m = d ->
  bias d C p m <= E p (fun g => excess C (mask m g)) <= E p (excess C).

(* (5, 0) with chance 3/8, (-3, 4) and (-3, -4) with 5/16 each, C = 4: no bias without a mask, 3/16 on average with one entry kept *)
Definition skewed : law vec := [(3 / 8, [5; 0]); (5 / 16, [-3; 4]); (5 / 16, [-3; -4])].
Ltac compute_bias := unfold bias, mean_vector, skewed; cbn [map mask repeat snd fst].
Ltac bias_is x := cbv [sum map fold_right add zip scale fst snd zero repeat sub];
  match goal with |- norm [?a; ?b] = _ => replace a with x by lra; replace b with 0 by lra end; norm_of.
Theorem printed_is_false : ~ printed.
Proof.
  intro claim. specialize (claim 2%nat 1%nat 4 skewed ltac:(lia) ltac:(lra) ltac:(lawful_by) ltac:(repeat constructor)).
  assert (b0 : bias 2 4 skewed (repeat true 2) = 0).
  { compute_bias. clips 4 [5; 0] 5 (4 / 5). clips 4 [-3; 4] 5 (4 / 5). clips 4 [-3; -4] 5 (4 / 5). bias_is 0. }
  assert (b1 : bias 2 4 skewed [true; false] = 3 / 8).
  { compute_bias. clips 4 [5; 0] 5 (4 / 5). clips 4 [-3; 0] 3 1. bias_is (- (3 / 8)). }
  assert (b2 : bias 2 4 skewed [false; true] = 0).
  { compute_bias. rewrite (clip_short 4 [0; 0]) by (rewrite (norm_is _ 0); [lra | lra | unfold square, dot; simpl; lra]).
    clips 4 [0; 4] 4 1. clips 4 [0; -4] 4 1. bias_is 0. }
  unfold avg in claim. cbn [masks map app length total fold_right] in claim. rewrite b0, b1, b2 in claim. simpl in claim. lra.
Qed.
Theorem correction_holds : correction.
Proof.
  intros d C p m C0 lp F em. split.
  - assert (F1 : Forall (fun a => length (clip C (mask m (snd a))) = d) p).
    { eapply Forall_impl; [|exact F]. simpl; intros a l. rewrite length_clip, length_mask; congruence. }
    assert (F2 : Forall (fun a => length (mask m (snd a)) = d) p).
    { eapply Forall_impl; [|exact F]. simpl; intros a l. rewrite length_mask; congruence. }
    unfold bias. set (D := sub _ _). set (X := E p (fun g => excess C (mask m g))).
    assert (le : square D <= X * norm D).
    { unfold square. unfold D at 1. rewrite dot_sub by (rewrite !length_mean_vector; auto).
      rewrite !dot_mean by assumption.
      replace (E p (fun v => dot (clip C (mask m v)) D) - E p (fun v => dot (mask m v) D))
        with (E p (fun v => dot (clip C (mask m v)) D + -1 * dot (mask m v) D)) by (rewrite E_add, E_scale; ring).
      unfold X. rewrite Rmult_comm, <- E_scale. apply E_le; [apply lp|]. intro g.
      replace (dot (clip C (mask m g)) D + -1 * dot (mask m g) D) with (dot (sub (clip C (mask m g)) (mask m g)) D)
        by (rewrite dot_sub by apply length_clip; ring).
      eapply Rle_trans; [apply cauchy_schwarz|]. rewrite clipped_off by lra. unfold excess. lra. }
    rewrite <- norm_norm in le. pose proof (norm_nonneg D).
    destruct (Req_dec (norm D) 0) as [z|nz]; [|apply (Rmult_le_reg_r (norm D)); lra].
    rewrite z. unfold X. replace 0 with (E p (fun _ => 0)) by (apply E_constant, lp). apply E_le; [apply lp|]. intro; apply Rmax_r.
  - apply E_le; [apply lp|]. intro g. unfold excess. pose proof (norm_mask m g).
    apply Rmax_lub; [eapply Rle_trans; [|apply Rmax_l]; lra | apply Rmax_r].
Qed.
End clip_bias.

(* rf.lem1: Differentially private SGD with sparse gradients (RF), anonymous submission under double-blind review: Appendix B, Lemma 1 (eq. 28); RS, Lemma A.1.
   "u, v in R^d are too arbitrary vectors, m is a {0,1}^d random mask independent from u, v, and subject to sum m = (1 - r)d", whose zeros are "randomly draw[n]"
   (section 2.1; RS, section 3: "uniformly"): E<m^k (.) u, v> = (1 - r) E<u, v>.
   Doubt: RS's lemma states no independence. *)
Module lem1.
(* a finite law of mask and vectors, K = (1 - r)d of d entries kept; m^j (.) u, the j-th power entry by entry, masks j times *)
Definition outcome : Type := list bool * (vec * vec).
Definition in_dimension (d : nat) (p : law outcome) : Prop :=
  lawful p /\ Forall (fun a => length (fst (snd (snd a))) = d /\ length (snd (snd (snd a))) = d) p.
(* the mask is uniform, and independent of the pair *)
Definition independent (d K : nat) (p : law outcome) : Prop :=
  forall f : list bool -> vec * vec -> R, E p (fun o => f (fst o) (snd o)) = E p (fun o => avg (masks d K) (fun m => f m (snd o))).
Definition power_mask (j : nat) (m : list bool) (u : vec) : vec := Nat.iter j (mask m) u.
Definition printed : Prop := forall d K j p, (0 < K <= d)%nat -> (1 <= j)%nat -> in_dimension d p -> independent d K p ->
  E p (fun o => dot (power_mask j (fst o) (fst (snd o))) (snd (snd o))) = share d K * E p (fun o => dot (fst (snd o)) (snd (snd o))).
(* another reading: uniform, and independent of u and of v one by one *)
Definition one_by_one (d K : nat) (p : law outcome) : Prop :=
  (forall (f : list bool -> R) (g : vec -> R), E p (fun o => f (fst o) * g (fst (snd o))) = avg (masks d K) f * E p (fun o => g (fst (snd o)))) /\
  (forall (f : list bool -> R) (g : vec -> R), E p (fun o => f (fst o) * g (snd (snd o))) = avg (masks d K) f * E p (fun o => g (snd (snd o)))).
Definition reading : Prop := forall d K j p, (0 < K <= d)%nat -> (1 <= j)%nat -> in_dimension d p -> one_by_one d K p ->
  E p (fun o => dot (power_mask j (fst o) (fst (snd o))) (snd (snd o))) = share d K * E p (fun o => dot (fst (snd o)) (snd (snd o))).

Lemma power_mask_is j m u : (1 <= j)%nat -> power_mask j m u = mask m u.
Proof.
  intro l. destruct j as [|j]; [lia|]. clear l. unfold power_mask. induction j as [|j IH]; [reflexivity|].
  change (mask m (Nat.iter (S j) (mask m) u) = mask m u). rewrite IH. apply mask_twice.
Qed.
Lemma E_ext_in {A} (p : law A) f g : Forall (fun a => f (snd a) = g (snd a)) p -> E p f = E p g.
Proof. intro h. apply total_map_ext. eapply Forall_impl; [|exact h]. simpl; intros ? ->; reflexivity. Qed.
Theorem printed_holds : printed.
Proof.
  intros d K j p [K0 Kd] j1 [lp F] ind.
  rewrite (E_ext p _ (fun o => dot (mask (fst o) (fst (snd o))) (snd (snd o)))) by (intro o; rewrite power_mask_is by exact j1; reflexivity).
  rewrite (ind (fun m uv => dot (mask m (fst uv)) (snd uv))), <- E_scale. apply E_ext_in.
  eapply Forall_impl; [|exact F]. intros [q [m [u v]]] [eu ev]. simpl in *. apply masked_dot; lia.
Qed.
(* four outcomes of chance 1/4: the kept entry is the first where u = v = +-(1, 0), the second where u = +-(1, 0) = -v: E<m u, v> = 1/2, and E<u, v> = 0 *)
Definition tied : law outcome :=
  [(1 / 4, ([true; false], ([1; 0], [1; 0]))); (1 / 4, ([true; false], ([-1; 0], [-1; 0])));
   (1 / 4, ([false; true], ([1; 0], [-1; 0]))); (1 / 4, ([false; true], ([-1; 0], [1; 0])))].
Lemma satisfiable : in_dimension 2 tied /\ one_by_one 2 1 tied.
Proof.
  split; [split; [unfold tied; lawful_by | repeat constructor]|]. split; intros f g; unfold E, tied, avg; simpl; field.
Qed.
Theorem reading_is_false : ~ reading.
Proof.
  intro claim. destruct satisfiable as [a b]. specialize (claim 2%nat 1%nat 1%nat tied ltac:(lia) ltac:(lia) a b).
  unfold E, tied, share, dot, power_mask in claim. simpl in claim. lra.
Qed.
End lem1.

(* rf.cor1.1: Differentially private SGD with sparse gradients (RF), anonymous submission under double-blind review: Appendix B, Corollary 1.1 (eq. 32); RS, Corollary A.2.
   "Following the notation of lemma 1", E<m (.) u, m (.) v> = (1 - r) E<u, v>.
   Doubt: RS's lemma states no independence. *)
Module cor1_1.
Import rf.lem1.
Definition printed : Prop := forall d K p, (0 < K <= d)%nat -> in_dimension d p -> independent d K p ->
  E p (fun o => dot (mask (fst o) (fst (snd o))) (mask (fst o) (snd (snd o)))) = share d K * E p (fun o => dot (fst (snd o)) (snd (snd o))).
(* another reading: uniform, and independent of u and of v one by one *)
Definition reading : Prop := forall d K p, (0 < K <= d)%nat -> in_dimension d p -> one_by_one d K p ->
  E p (fun o => dot (mask (fst o) (fst (snd o))) (mask (fst o) (snd (snd o)))) = share d K * E p (fun o => dot (fst (snd o)) (snd (snd o))).

Theorem printed_holds : printed.
Proof.
  intros d K p Kd D ind. rewrite <- (rf.lem1.printed_holds d K 1%nat p Kd (Nat.le_refl _) D ind). apply E_ext. intro o.
  rewrite power_mask_is by lia. apply dot_mask.
Qed.
(* the law of rf.lem1: 1/2 and 0 *)
Theorem reading_is_false : ~ reading.
Proof.
  intro claim. destruct satisfiable as [a b]. specialize (claim 2%nat 1%nat tied ltac:(lia) a b).
  unfold E, tied, share, dot in claim. simpl in claim. lra.
Qed.
End cor1_1.

(* rf.cost: Differentially private SGD with sparse gradients (RF), anonymous submission under double-blind review: section 4, Advantages of sparsity.
   The power method's basic operation W W^T V costs O(dbs), the projection V^T X costs O(dbn); freezing deletes a share r of the rows, and
   "b, s might also be able to be reduced. Overall, the computational cost is between O(1 - r) and O((1 - r)^3)." *)
Module cost.
(* multiplications; d x s, d x b and d x n matrices *)
Definition power_method (d b s : R) : R := 2 * d * b * s.
Definition projection (d b n : R) : R := d * b * n.
(* d is scaled by x = 1 - r, b and s by something from x to 1: both costs are scaled by something between *)
Definition printed : Prop := forall d b s n x y z, 0 < d -> 0 < b -> 0 < s -> 0 < n -> 0 < x < 1 -> x <= y <= 1 -> x <= z <= 1 ->
  x ^ 3 * power_method d b s <= power_method (x * d) (y * b) (z * s) <= x * power_method d b s /\
  x ^ 3 * projection d b n <= projection (x * d) (y * b) n <= x * projection d b n.
(* another reading: with d, b and s scaled by x both reach the cubic end *)
Definition reading : Prop := forall d b s n x, 0 < d -> 0 < b -> 0 < s -> 0 < n -> 0 < x < 1 ->
  power_method (x * d) (x * b) (x * s) = x ^ 3 * power_method d b s /\
  projection (x * d) (x * b) n <= x ^ 3 * projection d b n.
Definition correction : Prop := forall d b s n x, 0 < d -> 0 < b -> 0 < s -> 0 < n -> 0 < x < 1 ->
  power_method (x * d) b s = x * power_method d b s /\ projection (x * d) b n = x * projection d b n /\
  power_method (x * d) (x * b) (x * s) = x ^ 3 * power_method d b s /\
  projection (x * d) (x * b) n = x ^ 2 * projection d b n.

Theorem printed_holds : printed.
Proof.
  intros d b s n x y z d0 b0 s0 n0 x0 [y0 y1] [z0 z1]. unfold power_method, projection.
  assert (P : 0 < 2 * d * b * s) by (repeat apply Rmult_lt_0_compat; lra). assert (Q : 0 < d * b * n) by (repeat apply Rmult_lt_0_compat; lra).
  replace (2 * (x * d) * (y * b) * (z * s)) with (x * (y * z) * (2 * d * b * s)) by ring. replace (x * d * (y * b) * n) with (x * y * (d * b * n)) by ring.
  assert (x * x <= y * z) by (apply Rmult_le_compat; lra). assert (y * z <= 1) by nra. assert (x * x <= y) by nra.
  replace (x ^ 3) with (x * (x * x)) by ring. repeat split; apply Rmult_le_compat_r; try lra; nra.
Qed.
(* r = 1/2, one of everything: the projection has 1/4, not at most 1/8 *)
Theorem reading_is_false : ~ reading.
Proof. intro claim. destruct (claim 1 1 1 1 (1 / 2)) as [_ h]; try lra. unfold projection in h. simpl in h. lra. Qed.
Theorem correction_holds : correction.
Proof. intros d b s n x d0 b0 s0 n0 x0. unfold power_method, projection. repeat split; ring. Qed.
End cost.

(* rf.eq26-27: Differentially private SGD with sparse gradients (RF), anonymous submission under double-blind review: Appendix A (eq. 26, 27).
   "In the extreme case that Sigma = lambda I, this will scale linearly in d, while in the opposite extreme of a rank deficient covariance matrix, the trace is
   constant in d. Thus, in the former case MSE >= lambda d + lambda sigma^2 d^2, while in the latter MSE >= lambda + lambda sigma^2 d".
   Stated as printed is the sentence on a rank deficient matrix alone; `correction` has (26) for Sigma = lambda I and (27) for rank one, where they are right.
   Doubt: if "the opposite extreme" means rank one, the sentence is true. *)
Module eq26_27.
(* the eigenvalues of a covariance; the bound of Theorem 1 is Tr (1 + d sigma^2) *)
Definition spectrum (d : nat) (l : vec) (largest : R) : Prop :=
  length l = d /\ Forall (fun a => 0 <= a <= largest) l /\ In largest l.
Definition bound (l : vec) (sigma : R) : R := total l * (1 + INR (length l) * sigma ^ 2).
Definition deficient (l : vec) : Prop := In 0 l.                                    (* rank below d *)
(* at one largest eigenvalue lambda *)
Definition printed : Prop := forall lambda, 0 < lambda -> exists trace, forall d l, spectrum d l lambda -> deficient l -> total l = trace.
(* (26) for equal eigenvalues, (27) for rank one; every other spectrum lies between *)
Definition correction : Prop := forall d l lambda sigma, spectrum d l lambda -> 0 < lambda ->
  bound (repeat lambda d) sigma = lambda * INR d + lambda * sigma ^ 2 * INR d ^ 2 /\
  bound (lambda :: repeat 0 (d - 1)) sigma = lambda + lambda * sigma ^ 2 * INR d /\
  lambda * (1 + INR d * sigma ^ 2) <= bound l sigma <= INR d * lambda * (1 + INR d * sigma ^ 2).

(* lambda = 1, eigenvalues (1, 0) and (1, 1, 0): the traces are 1 and 2 *)
Theorem printed_is_false : ~ printed.
Proof.
  intro claim. destruct (claim 1 ltac:(lra)) as [t h].
  pose proof (h 2%nat [1; 0] ltac:(repeat split; [repeat constructor; lra | simpl; auto]) ltac:(unfold deficient; simpl; auto)) as a.
  pose proof (h 3%nat [1; 1; 0] ltac:(repeat split; [repeat constructor; lra | simpl; auto]) ltac:(unfold deficient; simpl; auto)) as b.
  unfold total in a, b. simpl in a, b. lra.
Qed.
Lemma trace l a : Forall (fun b => 0 <= b <= a) l -> 0 <= total l <= INR (length l) * a.
Proof. induction 1; [simpl; lra|]. cbn [length]. rewrite S_INR. cbn [total fold_right]. fold (total l). lra. Qed.
Lemma member l a : Forall (fun b => 0 <= b <= a) l -> In a l -> a <= total l.
Proof. induction 1; simpl; [tauto|]. intros [->|i].
  - pose proof (trace _ _ H0). fold (total l). lra.
  - specialize (IHForall i). fold (total l). lra. Qed.
Lemma total_repeat a n : total (repeat a n) = INR n * a.
Proof. induction n as [|n IH]; [simpl; ring|]. rewrite S_INR. cbn [repeat total fold_right]. fold (total (repeat a n)). rewrite IH. ring. Qed.
Theorem correction_holds : correction.
Proof.
  intros d l a sigma (e & F & i) a0. assert (d1 : (1 <= d)%nat) by (destruct l; [destruct i | simpl in e; lia]).
  split; [|split].
  - unfold bound. rewrite total_repeat, repeat_length. ring.
  - unfold bound. cbn [length total fold_right]. fold (total (repeat 0 (d - 1))). rewrite total_repeat, repeat_length.
    replace (S (d - 1)) with d by lia. ring.
  - unfold bound. rewrite e. pose proof (trace l a F) as [t0 t1]. pose proof (member l a F i).
    rewrite e in t1. assert (0 <= 1 + INR d * sigma ^ 2) by (pose proof (pos_INR d); nra). split; apply Rmult_le_compat_r; lra.
Qed.
End eq26_27.

(* rf.lem2: Differentially private SGD with sparse gradients (RF), anonymous submission under double-blind review: Appendix B, Lemma 2 (eq. 35); RS, Lemma B.1.
   "u in R^d is an arbitrary vector, m is a {0,1}^d random mask independent from u and subject to sum m = (1 - r)d: E |m (.) u| >= (1 - r)|u|."
   Read, as RF draws its masks (section 2.1), with a uniform mask. *)
Module lem2.
Definition printed : Prop := forall d k u, (0 < k <= d)%nat -> length u = d ->
  share d k * norm u <= avg (masks d k) (fun m => norm (mask m u)).
(* with an upper bound *)
Definition correction : Prop := forall d k u, (0 < k <= d)%nat -> length u = d ->
  share d k * norm u <= avg (masks d k) (fun m => norm (mask m u)) <= sqrt (share d k) * norm u.

Theorem correction_holds : correction.
Proof.
  intros d k u [k0 kd] e. split; [|apply masked_norm_upper; [lia | exact e]].
  destruct (Req_dec (norm u) 0) as [z|nz].
  { rewrite z, Rmult_0_r. apply avg_nonneg, Forall_forall. intros; apply norm_nonneg. }
  pose proof (norm_nonneg u). assert (0 < norm u) by lra.
  apply (Rmult_le_reg_r (norm u)); [assumption|]. rewrite Rmult_assoc, norm_norm, <- (masked_square d k u) by (try exact e; lia).
  rewrite Rmult_comm, <- avg_scale. apply avg_le, Forall_forall. intros m _. rewrite <- norm_norm.
  apply Rmult_le_compat_r; [apply norm_nonneg | apply norm_mask].
Qed.
Theorem printed_holds : printed.
Proof. intros d k u kd e. apply (correction_holds d k u kd e). Qed.
(* both ends are reached: one entry of size 1, and entries of equal size, d = 4, one kept *)
Lemma satisfiable : avg (masks 4 1) (fun m => norm (mask m [1; 0; 0; 0])) = share 4 1 * norm [1; 0; 0; 0].
Proof.
  assert (n1 : norm [1; 0; 0; 0] = 1) by norm_of. assert (n0 : norm [0; 0; 0; 0] = 0) by norm_of.
  unfold avg, share. simpl. rewrite n1, n0. field.
Qed.
End lem2.

(* rf.momentum: Differentially private SGD with sparse gradients (RF), anonymous submission under double-blind review: section 3.4.
   With v_{t+1} = mu v_t + g_{t+1}, and v^ the velocity without its noise, v_{t+1} - v^_{t+1} = (1 + mu + ... + mu^t) N(0, C^2 sigma^2 I). *)
Module momentum.
Import rs.appH.
(* the law of the right side has the variance (1 + mu + ... + mu^t)^2 C^2 sigma^2 *)
Definition printed : Prop := exists (O : Type) (e : expectation O) (n : nat -> O -> R), unit_noise e n /\
  forall mu s t, 0 < mu < 1 -> 0 < s -> variance e (velocity mu 1 s n t) = (weights mu t * s) ^ 2.
Definition correction : Prop := forall (O : Type) (e : expectation O) (n : nat -> O -> R), unit_noise e n ->
  forall mu s t, 0 < mu < 1 -> 0 < s -> variance e (velocity mu 1 s n t) = s ^ 2 * (1 - mu ^ (2 * t)) / (1 - mu ^ 2).

Theorem correction_holds : correction.
Proof.
  intros O e n noise mu s t [a b] s0. unfold variance. destruct (squares O e n noise mu 1 s t) as [_ h].
  assert (0 < 1 - mu ^ 2) by nra. apply (Rmult_eq_reg_l (1 - mu ^ 2)); [|lra]. rewrite h. field; lra.
Qed.
(* mu = 1/2, two steps: the variance is 5/4, printed 9/4 *)
Theorem printed_is_false : ~ printed.
Proof.
  intros (O & e & n & noise & claim). specialize (claim (1 / 2) 1 2%nat ltac:(lra) ltac:(lra)).
  rewrite (correction_holds O e n noise (1 / 2) 1 2%nat ltac:(lra) ltac:(lra)) in claim. simpl in claim. lra.
Qed.
End momentum.

(* rf.mse_criterion: Differentially private SGD with sparse gradients (RF), anonymous submission under double-blind review: section 2.2.
   MSE_RF < MSE_DP: "Combining this with Theorem 2, it shows the possibility that we achieve better convergence by removing some signal while mitigating noise."
   A possibility there is; the sentence is not stated here. Refuted is the criterion that a reader may take from it: where the MSE of random freeze is lower,
   random freeze is the better choice. *)
Module mse_criterion.
(* one example with the true gradient w, C = clip, s = C sigma / B; n: the noise of the step, d coordinates *)
Definition DP {O} (n : nat -> O -> R) d C s (w : vec) (o : O) : vec := add (clip C w) (scale s (noise n d o)).
Definition RF {O} (n : nat -> O -> R) d C s (w : vec) (m : list bool) (o : O) : vec :=
  add (clip C (mask m w)) (mask m (scale s (noise n d o))).
Definition error (w v : vec) : R := square (sub w v).
Definition loss (v : vec) : R := square v / 2.                 (* |v|^2 / 2, whose gradient at w is w *)
Definition after (g : R) (w v : vec) : R := loss (sub w (scale g v)).
(* the criterion, on this loss: some learning rate g' of random freeze does at least as well as any g of DP-SGD *)
Definition reading : Prop := exists (O : Type) (e : expectation O) (n : nat -> O -> R), unit_noise e n /\
  forall d k C s w, (0 < k < d)%nat -> 0 < C -> 0 < s -> length w = d ->
  avg (masks d k) (fun m => ex e (fun o => error w (RF n d C s w m o))) < ex e (fun o => error w (DP n d C s w o)) ->
  forall g, 0 < g -> exists g', 0 < g' /\
  avg (masks d k) (fun m => ex e (fun o => after g' w (RF n d C s w m o))) <= ex e (fun o => after g w (DP n d C s w o)).

(* w = (1, 1), noise of standard deviation 2 in each entry, one of two entries kept, C = 2, so that nothing is clipped:
   the error falls from 8 to 5, and the best expected decrease on |w|^2 / 2 from 1/5 to 1/10 *)
Lemma short v : square v <= 2 -> clip 2 v = v.
Proof. intro. apply clip_short, norm_le; lra. Qed.
Section Numbers.
Variables (O : Type) (e : expectation O) (n : nat -> O -> R).
Hypothesis (nz : unit_noise e n).
Ltac shape f c a b p q := rewrite (ex_ext e _ (fun o => c + a * n 0%nat o + b * n 1%nat o + p * (n 0%nat o * n 0%nat o)
    + q * (n 1%nat o * n 1%nat o) + 0 * (n 0%nat o * n 1%nat o)));
  [rewrite (ex_two O e n nz); try lra | intro o; unfold f, RF, DP, loss; cbn [mask]; rewrite short by (unfold square, dot; simpl; lra);
   unfold noise, square, dot; simpl; lra].
Lemma error_DP : ex e (fun o => error [1; 1] (DP n 2 2 2 [1; 1] o)) = 8.
Proof. shape error 0 0 0 4 4. Qed.
Lemma error_RF m : In m (masks 2 1) -> ex e (fun o => error [1; 1] (RF n 2 2 2 [1; 1] m o)) = 5.
Proof. simpl. intros [<-|[<-|[]]]; [shape error 1 0 0 4 0 | shape error 1 0 0 0 4]. Qed.
Lemma after_DP g : ex e (fun o => after g [1; 1] (DP n 2 2 2 [1; 1] o)) = (1 - g) ^ 2 + 4 * g ^ 2.
Proof. shape after ((1 - g) ^ 2) (-2 * g * (1 - g)) (-2 * g * (1 - g)) (2 * g ^ 2) (2 * g ^ 2). Qed.
Lemma after_RF g m : In m (masks 2 1) -> ex e (fun o => after g [1; 1] (RF n 2 2 2 [1; 1] m o)) = ((1 - g) ^ 2 + 1) / 2 + 2 * g ^ 2.
Proof. simpl. intros [<-|[<-|[]]]; [shape after (((1 - g) ^ 2 + 1) / 2) (-2 * g * (1 - g)) 0 (2 * g ^ 2) 0
  | shape after (((1 - g) ^ 2 + 1) / 2) 0 (-2 * g * (1 - g)) 0 (2 * g ^ 2)]. Qed.
End Numbers.
Theorem reading_is_false : ~ reading.
Proof.
  intros (O & e & n & nz & claim). specialize (claim 2%nat 1%nat 2 2 [1; 1] ltac:(lia) ltac:(lra) ltac:(lra) eq_refl).
  rewrite (avg_same _ _ 5) in claim by (try discriminate; apply (error_RF O e n nz)). rewrite (error_DP O e n nz) in claim.
  destruct (claim ltac:(lra) (1 / 5) ltac:(lra)) as (g & g0 & le).
  rewrite (avg_same _ _ (((1 - g) ^ 2 + 1) / 2 + 2 * g ^ 2)) in le by (try discriminate; apply (after_RF O e n nz)).
  rewrite (after_DP O e n nz) in le. nra.
Qed.
End mse_criterion.

(* rf.posterior: Differentially private SGD with sparse gradients (RF), anonymous submission under double-blind review: Appendix G (eq. 71 to 75).
   gbar = (1/B) sum m (.) clip(g_i) (posterior freeze), ghat = (1/B) sum clip(m (.) g_i) (random freeze): E |gbar|^2 <= E |ghat|^2. *)
Module posterior.
Definition after_clip d C m (gs : list vec) : vec := average d (map (fun g => mask m (clip C g)) gs).
Definition before_clip d C m (gs : list vec) : vec := average d (map (fun g => clip C (mask m g)) gs).
Definition printed : Prop := forall d k C gs, (0 < k <= d)%nat -> 0 < C -> gs <> [] -> Forall (fun g => length g = d) gs ->
  avg (masks d k) (fun m => square (after_clip d C m gs)) <= avg (masks d k) (fun m => square (before_clip d C m gs)).
(* what is true of every batch, with g_C = (1/B) sum clip(g_i) *)
Definition correction : Prop := forall d k C gs u, (0 < k <= d)%nat -> 0 < C -> gs <> [] -> Forall (fun g => length g = d) gs ->
  length u = d ->
  avg (masks d k) (fun m => square (after_clip d C m gs)) = share d k * square (average d (map (clip C) gs)) /\
  avg (masks d k) (fun m => dot (after_clip d C m gs) u) = share d k * dot (average d (map (clip C) gs)) u.

(* C = 1, gradients (1, 0) and (-5, 12), one of two entries kept: 2/13 against 1/8 *)
Theorem printed_is_false : ~ printed.
Proof.
  intro claim. specialize (claim 2%nat 1%nat 1 [[1; 0]; [-5; 12]] ltac:(lia) ltac:(lra) ltac:(discriminate) ltac:(repeat constructor)).
  unfold avg, after_clip, before_clip, average in claim. cbn [masks map app length total fold_right mask] in claim.
  revert claim. rewrite (clip_short 1 [0; 0]) by (rewrite (norm_is _ 0); [lra | lra | unfold square, dot; simpl; lra]).
  clips 1 [1; 0] 1 1. clips 1 [-5; 12] 13 (1 / 13). clips 1 [-5; 0] 5 (1 / 5). clips 1 [0; 12] 12 (1 / 12).
  unfold square, dot. simpl. lra.
Qed.
Theorem correction_holds : correction.
Proof.
  intros d k C gs u kd C0 ne F eu.
  assert (Fc : Forall (fun v => length v = d) (map (clip C) gs)).
  { apply Forall_map. eapply Forall_impl; [|exact F]. simpl; intros. rewrite length_clip; assumption. }
  assert (la : length (average d (map (clip C) gs)) = d) by (apply length_average, Fc).
  assert (q : forall m, In m (masks d k) -> after_clip d C m gs = mask m (average d (map (clip C) gs))).
  { intros m i. destruct (in_masks _ _ _ i) as [em _]. unfold after_clip, average. rewrite mask_scale, mask_sum by exact em.
    rewrite map_map, !map_length. reflexivity. }
  split.
  - rewrite <- masked_square by (try exact la; lia). apply avg_ext, Forall_forall. intros m i. rewrite q by exact i. reflexivity.
  - rewrite <- masked_dot by (try assumption; lia). apply avg_ext, Forall_forall. intros m i. rewrite q by exact i. reflexivity.
Qed.
End posterior.

(* rf.raise_noise: Differentially private SGD with sparse gradients (RF), anonymous submission under double-blind review: section 2.2, after Fig. 1.
   "For example, in addition to taking advantage of noise mitigation, we can also raise the noise to xi+ so that E |m xi+| matches E |xi|. This allows us to run more
   iterations T on the same privacy budget, which also implies better convergence by Theorem 2."
   Refuted is the reading that the bound of Theorem 2 without bias improves at every kappa >= 1 - r, which is all that the theorem says of kappa.
   Doubts: E |m xi+| = E |xi| is taken for the squared norms, sigma+ = sigma / sqrt(1 - r). T+ = T / (1 - r) is our step, not the paper's: what the budget allows without
   subsampling; with it T+ is larger. *)
Module raise_noise.
(* right side of Theorem 2 without bias at learning rate g; A = G C^2 / 2, D = Delta_DP, x = 1 - r; the noise D / x gives D back *)
Definition bound (kappa x Delta A D T g : R) : R := 1 / kappa * (Delta / (g * T) + g * A + x * g * D).
Definition raised (kappa x Delta A D T g : R) : R := bound kappa x Delta A (D / x) (T / x) g.
Definition reading : Prop := forall kappa x Delta A D T, 0 < x < 1 -> x <= kappa -> 0 < Delta -> 0 < A -> 0 < D -> 0 < T ->
  forall g, 0 < g -> exists g', 0 < g' /\ raised kappa x Delta A D T g' < bound 1 1 Delta A D T g.
(* if and only if kappa > sqrt(1 - r) *)
Definition correction : Prop := forall kappa x Delta A D T, 0 < x < 1 -> 0 < kappa -> 0 < Delta -> 0 < A -> 0 < D -> 0 < T ->
  ((forall g, 0 < g -> exists g', 0 < g' /\ raised kappa x Delta A D T g' < bound 1 1 Delta A D T g) <-> sqrt x < kappa).

(* x = kappa = 1/4: the tuned bound has 2 times its value *)
Lemma amgm p q g : 0 < p -> 0 < q -> 0 < g -> 4 * p * q <= (p / g + q * g) * (p / g + q * g).
Proof. intros. assert (h : (p / g + q * g) * (p / g + q * g) - 4 * p * q = (p / g - q * g) * (p / g - q * g)) by (field; lra).
  pose proof (Rle_0_sqr (p / g - q * g)) as s. unfold Rsqr in s. lra. Qed.
Lemma tuned p q : 0 < p -> 0 < q -> exists g, 0 < g /\ p / g + q * g = 2 * sqrt (p * q).
Proof.
  intros a b. exists (sqrt (p / q)). assert (0 < p / q) by (apply Rdiv_lt_0_compat; assumption).
  assert (s0 : 0 < sqrt (p / q)) by (apply sqrt_lt_R0; assumption). split; [exact s0|].
  assert (ss : sqrt (p / q) * sqrt (p / q) = p / q) by (apply sqrt_sqrt; lra). set (s := sqrt (p / q)) in *.
  assert (e : sqrt (p * q) = q * s).
  { replace (p * q) with (q * s * (q * s)); [apply sqrt_square; nra|].
    replace (q * s * (q * s)) with (q * q * (s * s)) by ring. rewrite ss. field; lra. }
  rewrite e. replace p with (q * (s * s)) at 1 by (rewrite ss; field; lra). field; lra.
Qed.
Lemma at_least p q g : 0 < p -> 0 < q -> 0 < g -> 2 * sqrt (p * q) <= p / g + q * g.
Proof.
  intros a b c. pose proof (amgm p q g a b c). assert (0 < p * q) by nra.
  assert (0 < p / g + q * g) by (assert (0 < p / g) by (apply Rdiv_lt_0_compat; assumption); nra).
  apply Rsqr_incr_0_var; [|lra]. unfold Rsqr.
  replace (2 * sqrt (p * q) * (2 * sqrt (p * q))) with (4 * (sqrt (p * q) * sqrt (p * q))) by ring. rewrite sqrt_sqrt by lra. lra.
Qed.
Lemma plain Delta A D T g : 0 < g -> 0 < T -> bound 1 1 Delta A D T g = (Delta / T) / g + (A + D) * g.
Proof. intros. unfold bound. field; split; lra. Qed.
Lemma raised_form kappa x Delta A D T g : 0 < kappa -> 0 < x -> 0 < g -> 0 < T ->
  raised kappa x Delta A D T g = / kappa * (x * (Delta / T) / g + (A + D) * g).
Proof. intros. unfold raised, bound. field; repeat split; lra. Qed.
Theorem correction_holds : correction.
Proof.
  intros kappa x Delta A D T [x0 x1] k0 D0 A0 D'0 T0. set (p := Delta / T). set (q := A + D).
  assert (p0 : 0 < p) by (apply Rdiv_lt_0_compat; assumption). assert (q0 : 0 < q) by (unfold q; lra).
  assert (xp : 0 < x * p) by nra. assert (pq : 0 < p * q) by nra.
  assert (es : sqrt (x * p * q) = sqrt x * sqrt (p * q)) by (rewrite Rmult_assoc; apply sqrt_mult; lra).
  assert (S0 : 0 < sqrt (p * q)) by (apply sqrt_lt_R0; exact pq).
  split.
  - intro h. destruct (tuned p q p0 q0) as (g & g0 & eg). destruct (h g g0) as (g' & g'0 & lt).
    rewrite plain, raised_form in lt by assumption. fold p q in lt. rewrite eg in lt.
    pose proof (at_least (x * p) q g' xp q0 g'0) as le. rewrite es in le. set (X := x * p / g' + q * g') in *.
    assert (/ kappa * X * kappa < 2 * sqrt (p * q) * kappa) by (apply Rmult_lt_compat_r; assumption).
    replace (/ kappa * X * kappa) with X in H by (field; lra). nra.
  - intros lt g g0. destruct (tuned (x * p) q xp q0) as (g' & g'0 & eg). exists g'. split; [exact g'0|].
    rewrite plain, raised_form by assumption. fold p q. rewrite eg, es.
    apply Rlt_le_trans with (2 * sqrt (p * q)); [|apply at_least; assumption].
    apply (Rmult_lt_reg_l kappa); [exact k0|]. rewrite <- Rmult_assoc, Rinv_r by lra. nra.
Qed.
Theorem reading_is_false : ~ reading.
Proof.
  intro claim. assert (h : sqrt (1 / 4) < 1 / 4).
  { apply (correction_holds (1 / 4) (1 / 4) 1 1 1 1); try lra. apply claim; lra. }
  replace (1 / 4) with (1 / 2 * (1 / 2)) in h at 1 by lra. rewrite sqrt_square in h by lra. lra.
Qed.
End raise_noise.

(* rf.shuffle: Differentially private SGD with sparse gradients (RF), anonymous submission under double-blind review: section 4, Privacy budget; RS, section 6 and Appendix K.
   "each iteration of training is (eps, delta)-differentially private with respect to a batch of training data, while shuffling and partitioning the dataset into batches
   implies that each iteration is (O(q eps), q delta)-differentially private with respect to the full dataset according to the privacy amplification theorem", q = B/N.
   Of an iteration by itself it holds (`correction`, in this family). Refuted is the reading that composing the losses of all iterations needs: each iteration given
   the outputs of the earlier ones of its epoch.
   Doubts: (i) O(q eps) is read with the constant of the theorem, 1 + q (e^eps - 1); for bounded eps a larger constant repairs this family. (ii) The paper composes by
   Renyi differential privacy and does not say that it conditions on earlier outputs. (iii) The mechanism here is randomised response on batches of one record, with
   delta = 0, not the Gaussian one. *)
Module shuffle.
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
End shuffle.

(* rf.thm2: Differentially private SGD with sparse gradients (RF), anonymous submission under double-blind review: Theorem 2 (eq. 4).
   DP-SGD with random freeze, grad w G-Lipschitz, p~ symmetric: there is kappa >= 1 - r with (1/T) sum P(|xi| < C/4) h(grad w_t)|grad w_t|
   <= (1/kappa)(Delta_L/(gamma T) + gamma Delta_C + (1 - r) gamma Delta_DP - (1/T) sum E_m b_t), h(v) = min(|v|, 3C/4), Delta_C = G C^2 / 2, Delta_DP = C^2 sigma^2 d G / (2 B^2).
   Doubts: the theorem does not say how long a mask is held; Algorithm 1 holds it for an epoch, the proof needs a fresh one at every step. Stated is the case without
   deviation of the examples' gradients; the correction has none either. *)
Module thm2.
Import rs.thm3_2 rs.thm3_4 rs.thm3_5.
(* The case without deviation (see rs.thm3.4), with P = 1 and b_t = 0; the run is that of rs.thm3.5. *)
Definition h (C : R) (v : vec) : R := Rmin (norm v) (3 * C / 4).
Definition Delta_DP (C sigma d G B : R) : R := C ^ 2 * sigma ^ 2 * d * G / (2 * B ^ 2).
Definition printed : Prop := exists (O : Type) (e : expectation O) (n : nat -> O -> R), unit_noise e n /\
  forall d k C G B sigma gamma L g least_L q w T, (0 < k < d)%nat -> 0 < C -> 0 < G -> 1 <= B -> 0 < sigma -> 0 < gamma -> (0 < T)%nat ->
  smooth d G L g -> least d L least_L -> uniform_masks d k q -> length w = d ->
  let left m t o := let v := g (private_run d C (C * sigma / B) g gamma m n w t o) in h C v * norm v in
  (forall m t, has e (left m t)) /\
  exists kappa, share d k <= kappa /\
  E q (fun m => / INR T * total (map (fun t => ex e (left m t)) (seq 0 T)))
  <= 1 / kappa * ((L w - least_L) / (gamma * INR T) + gamma * (G * C ^ 2 / 2) + share d k * gamma * Delta_DP C sigma (INR d) G B).
(* with fresh masks and noise of second moment C^2 sigma^2 d / B^2 it holds in expectation, with the value 1 - r for kappa *)
Definition correction : Prop := forall (O : Type) (p : law O) d k C G gamma sigma B L g least_L m z w T, lawful p -> (0 < k <= d)%nat -> 0 < C -> 0 < G -> 0 < gamma -> (0 < T)%nat -> 1 <= B ->
  smooth d G L g -> least d L least_L -> length w = d -> sized d m z ->
  let path := noisy_clipped_run C g gamma m z w in
  fresh p d k m path T -> centred p d k m z path T (C ^ 2 * sigma ^ 2 * INR d / B ^ 2) ->
  / INR T * total (map (fun t => E p (fun o => h C (g (path t o)) * norm (g (path t o)))) (seq 0 T))
  <= 1 / share d k * ((L w - least_L) / (gamma * INR T) + gamma * (G * C ^ 2 / 2) + share d k * gamma * Delta_DP C sigma (INR d) G B).

(* one of two entries, the same in all steps: (1, 1) on |w|^2 / 2, C = 6, B = 10, sigma = 1, T = 450, gamma = 1/90: at least 1 on the left, at most 0.804 on the right *)
Theorem printed_is_false : ~ printed.
Proof.
  intros (O & e & n & _ & claim). destruct (claim 2%nat 1%nat 6 1 10 1 (1 / 90) _ _ 0 held [1; 1] 450%nat ltac:(lia) ltac:(lra) Rlt_0_1 ltac:(lra) Rlt_0_1 ltac:(lra) ltac:(lia)
    (quadratic_smooth 2) (quadratic_least 2) held_uniform eq_refl) as (hs & kappa & k0 & le). clear claim.
  pose proof (kept_up e n (6 * 1 / 10) (3 * 6 / 4) ltac:(lra) hs) as ge.
  match type of le with ?X <= _ => change X with (E held (fun m => / INR 450 * total (map (fun t => ex e (fun o => low (3 * 6 / 4) (private_run 2 6 (6 * 1 / 10) (fun u => u) (1 / 90) m n [1; 1] t o))) (seq 0 450)))) in le end.
  assert (le' := Rle_trans _ _ _ ge le). clear ge le. cbv beta in le'. rewrite n450, start_loss in le'.
  assert (D : Delta_DP 6 1 (INR 2) 1 10 = 36 / 100) by (unfold Delta_DP; simpl; field). rewrite D in le'.
  assert (s : share 2 1 = 1 / 2) by (unfold share; simpl; field). rewrite s in k0, le'.
  assert (1 / kappa <= 2). { apply (Rmult_le_reg_r kappa); [lra|]. unfold Rdiv. rewrite Rmult_assoc, Rinv_l by lra. lra. }
  assert (0 < 1 / kappa) by (apply Rdiv_lt_0_compat; lra). nra.
Qed.
Theorem correction_holds : correction.
Proof.
  intros O p d k C G gamma sigma B L g l0 m z w T lp kd C0 G0 g0 T0 B1 sm le lw sz path fr ce.
  assert (V0 : 0 <= C ^ 2 * sigma ^ 2 * INR d / B ^ 2).
  { apply Rmult_le_pos; [|apply Rlt_le, Rinv_0_lt_compat; nra]. apply Rmult_le_pos; [|apply pos_INR]. pose proof (Rle_0_sqr (C * sigma)) as q. unfold Rsqr in q. nra. }
  pose proof (fresh_bound O p d k C (3 * C / 4) G gamma L g l0 m z w T _ lp kd ltac:(lra) G0 g0 T0 V0 sm le lw sz fr ce) as b.
  eapply Rle_trans; [exact b|]. right. unfold Delta_DP. pose proof (share_pos d k ltac:(lia) ltac:(lia)). assert (0 < INR T) by (apply lt_0_INR; lia).
  field. repeat split; lra.
Qed.
End thm2.
