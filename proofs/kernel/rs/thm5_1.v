(* rs.thm5.1: Zhu and Blaschko, Improving Differentially Private SGD via Randomly Sparsified Gradients (RS), the version with Lemma 3.3: Theorem 5.1 (eq. 17).
   The gradient g = k x of an unknown x is perturbed by xi ~ N(0, sigma^2 I) and masked; the attacker knows k and m and solves (m k) x^ = m (g + xi) by least
   squares: E |x - x^|^2 >= sigma^2 / ((1 - r)|k|^2). The proof assumes m (.) k <> 0, "otherwise the reconstruction will fail, i.e. arbitrary reconstruction error".
   Refuted is the reading of this assumption as an event, with the mean taken given it. If no mask has m (.) k = 0 the bound holds (`correction`); if a failure counts
   as an infinite error it holds too, and is not stated here.
   Doubt: the proof does not say which of the three it means. *)
From kernel Require Import definitions lemmas.

(* the least squares solution from what is left of g + sigma n *)
Definition solved (m : list bool) (k n : vec) (x sigma : R) : R :=
  dot (mask m k) (mask m (add (scale x k) (scale sigma n))) / square (mask m k).
Definition hit (k : vec) (m : list bool) : bool := if Rlt_dec 0 (square (mask m k)) then true else false.   (* m (.) k <> 0 *)
(* the mean error given m (.) k <> 0, over the uniform mask and the noise *)
Definition mean_error {O} (e : expectation O) (n : nat -> O -> R) (d K : nat) (k : vec) (x sigma : R) : R :=
  avg (filter (hit k) (masks d K)) (fun m => ex e (fun o => (x - solved m k (noise n d o) x sigma) ^ 2)).
Definition reading : Prop := exists (O : Type) (e : expectation O) (n : nat -> O -> R), unit_noise e n /\
  forall d K k x sigma, (0 < K <= d)%nat -> length k = d -> 0 < square k -> 0 < sigma ->
  sigma ^ 2 / (share d K * square k) <= mean_error e n d K k x sigma.
(* it holds where every mask keeps a non-zero entry of k *)
Definition correction : Prop := forall (O : Type) (e : expectation O) (n : nat -> O -> R), unit_noise e n ->
  forall d K k x sigma, (0 < K <= d)%nat -> length k = d -> 0 < square k -> 0 < sigma ->
  Forall (fun m => 0 < square (mask m k)) (masks d K) ->
  sigma ^ 2 / (share d K * square k) <= mean_error e n d K k x sigma.

Lemma ex_quadratic {O} (e : expectation O) (n : nat -> O -> R) (nz : unit_noise e n) c d (v : vec) : length v = d ->
  forall i, has e (fun o => (c * dot v (from O n i d o)) ^ 2) /\ ex e (fun o => (c * dot v (from O n i d o)) ^ 2) = c ^ 2 * square v /\
  (forall j, (j < i)%nat -> has e (fun o => n j o * dot v (from O n i d o)) /\ ex e (fun o => n j o * dot v (from O n i d o)) = 0).
Proof.
  destruct nz as (h1 & m1 & h2 & m2). revert d. induction v as [|a v IH]; intros [|d] l i; try discriminate.
  - assert (q : forall o, 0 = (c * dot [] (from O n i 0 o)) ^ 2) by (intro; unfold dot; simpl; ring).
    split; [apply (has_ext e _ _ q), has_constant|]. split; [rewrite <- (ex_ext e _ _ q), ex_constant; unfold square, dot; simpl; ring|].
    intros j _. assert (q' : forall o, 0 = n j o * dot [] (from O n i 0 o)) by (intro; unfold dot; simpl; ring).
    split; [apply (has_ext e _ _ q'), has_constant | rewrite <- (ex_ext e _ _ q'), ex_constant; reflexivity].
  - injection l as l. destruct (IH d l (S i)) as (a1 & a2 & a3). set (D := fun o => dot v (from O n (S i) d o)) in *.
    assert (s : forall o, dot (a :: v) (from O n i (S d) o) = a * n i o + D o) by (intro; reflexivity).
    destruct (a3 i ltac:(lia)) as [b1 b2]. change (has e (fun o => (c * D o) ^ 2)) in a1.
    change (ex e (fun o => (c * D o) ^ 2) = c ^ 2 * square v) in a2. change (has e (fun o => n i o * D o)) in b1. change (ex e (fun o => n i o * D o) = 0) in b2.
    assert (q : forall o, 1 * (c ^ 2 * a ^ 2 * (n i o * n i o) + 2 * c ^ 2 * a * (n i o * D o)) + 1 * (c * D o) ^ 2
      = (c * dot (a :: v) (from O n i (S d) o)) ^ 2) by (intro o; rewrite s; ring).
    pose proof (has_linear e (c ^ 2 * a ^ 2) (2 * c ^ 2 * a) _ _ (h2 i i) b1) as p1.
    split; [apply (has_ext e _ _ q), has_linear; assumption|]. split.
    + rewrite <- (ex_ext e _ _ q), (ex_linear e 1 1 _ _ p1 a1), (ex_linear e _ _ _ _ (h2 i i) b1), a2, b2, m2, Nat.eqb_refl, square_cons. ring.
    + intros j lt. destruct (a3 j ltac:(lia)) as [c1 c2]. change (has e (fun o => n j o * D o)) in c1. change (ex e (fun o => n j o * D o) = 0) in c2.
      assert (q' : forall o, a * (n j o * n i o) + 1 * (n j o * D o) = n j o * dot (a :: v) (from O n i (S d) o)) by (intro o; rewrite s; ring).
      split; [apply (has_ext e _ _ q'), has_linear; [apply h2 | exact c1]|].
      rewrite <- (ex_ext e _ _ q'), (ex_linear e _ _ _ _ (h2 j i) c1), c2, m2.
      replace (j =? i)%nat with false by (symmetry; apply Nat.eqb_neq; lia). ring.
Qed.
(* given m (.) k <> 0 the error is sigma^2 / |m (.) k|^2 *)
Lemma error_is {O} (e : expectation O) (n : nat -> O -> R) (nz : unit_noise e n) d m k x sigma : length m = d -> length k = d -> 0 < square (mask m k) ->
  ex e (fun o => (x - solved m k (noise n d o) x sigma) ^ 2) = sigma ^ 2 / square (mask m k).
Proof.
  intros em ek pos. set (X := square (mask m k)) in *.
  rewrite (ex_ext e _ (fun o => (- sigma / X * dot (mask m k) (from O n 0 d o)) ^ 2)).
  - destruct (ex_quadratic e n nz (- sigma / X) d (mask m k) ltac:(rewrite length_mask; congruence) 0) as (_ & -> & _).
    fold X. field. lra.
  - intro o. f_equal. unfold solved. fold X.
    rewrite (dot_comm (mask m k)), mask_add, !mask_scale, dot_add by (rewrite !length_scale, !length_mask by (rewrite ?length_noise; congruence); rewrite length_noise; congruence).
    rewrite !dot_scale. fold (square (mask m k)). fold X. rewrite (dot_comm (mask m (noise n d o))), dot_comm, dot_mask, dot_comm.
    change (noise n d o) with (from O n 0 d o).
    assert (q : dot k (mask m (from O n 0 d o)) = dot (mask m k) (from O n 0 d o)) by (rewrite <- dot_mask, dot_comm, <- dot_mask, dot_comm; reflexivity).
    rewrite q. field. lra.
Qed.
(* k = (1, 0), one of two entries kept, sigma = 1: the error is 1, the printed bound 2 *)
Theorem reading_is_false : ~ reading.
Proof.
  intros (O & e & n & nz & claim).
  assert (s1 : square [1; 0] = 1) by (unfold square, dot; simpl; lra). assert (s0 : square [0; 0] = 0) by (unfold square, dot; simpl; lra).
  specialize (claim 2%nat 1%nat [1; 0] 0 1 ltac:(lia) eq_refl ltac:(lra) ltac:(lra)).
  unfold mean_error in claim. cbn [masks map app filter] in claim. unfold hit in claim. cbn [mask] in claim. rewrite s1, s0 in claim.
  destruct (Rlt_dec 0 1) as [_|no]; [|apply no; lra]. destruct (Rlt_dec 0 0) as [bad|_]; [lra|].
  unfold avg in claim. cbn [map total fold_right length] in claim.
  rewrite (error_is e n nz 2 [true; false] [1; 0] 0 1 eq_refl eq_refl) in claim by (cbn [mask]; lra).
  cbn [mask] in claim. rewrite s1 in claim. unfold share in claim. simpl in claim. lra.
Qed.
Lemma filter_all {A} (f : A -> bool) l : Forall (fun a => f a = true) l -> filter f l = l.
Proof. induction 1; simpl; [reflexivity|]. rewrite H, IHForall. reflexivity. Qed.
Lemma avg_inverse {A} (l : list A) f : l <> [] -> Forall (fun a => 0 < f a) l -> 0 < avg l f -> / avg l f <= avg l (fun a => / f a).
Proof.
  intros ne pos m0. set (mu := avg l f) in *.
  apply Rle_trans with (avg l (fun a => 2 / mu + - / (mu * mu) * f a)).
  - rewrite avg_add, avg_constant, avg_scale by exact ne. fold mu. right. field. lra.
  - apply avg_le. eapply Forall_impl; [|exact pos]. simpl. intros a f0. apply (Rmult_le_reg_r (f a * (mu * mu))); [apply Rmult_lt_0_compat; [exact f0 | nra]|].
    replace ((2 / mu + - / (mu * mu) * f a) * (f a * (mu * mu))) with (2 * mu * f a - f a * f a) by (field; lra).
    replace (/ f a * (f a * (mu * mu))) with (mu * mu) by (field; lra). pose proof (Rle_0_sqr (mu - f a)) as z. unfold Rsqr in z. lra.
Qed.
Theorem correction_holds : correction.
Proof.
  intros O e n nz d K k x sigma [K0 Kd] ek pos s0 all. unfold mean_error.
  rewrite filter_all by (eapply Forall_impl; [|exact all]; intros m h; unfold hit; destruct (Rlt_dec 0 (square (mask m k))); [reflexivity | contradiction]).
  rewrite (avg_ext _ _ (fun m => sigma ^ 2 * / square (mask m k))).
  - rewrite avg_scale. assert (S : avg (masks d K) (fun m => square (mask m k)) = share d K * square k) by (apply masked_square; try assumption; lia).
    pose proof (share_pos d K K0 ltac:(lia)). unfold Rdiv. rewrite <- S. apply Rmult_le_compat_l; [nra|].
    apply avg_inverse; [apply masks_some; exact Kd | exact all | rewrite S; apply Rmult_lt_0_compat; assumption].
  - apply Forall_forall. intros m i. destruct (in_masks _ _ _ i) as [em _].
    apply (error_is e n nz d m k x sigma em ek). apply (proj1 (Forall_forall _ _) all m i).
Qed.
