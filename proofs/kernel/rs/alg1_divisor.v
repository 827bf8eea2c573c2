(* rs.alg1.divisor: Zhu and Blaschko, Improving Differentially Private SGD via Randomly Sparsified Gradients (RS), the version with Lemma 3.3: Algorithm 1, lines 3 to 6.
   The sum over the drawn batch and its noise N(0, C^2 sigma^2 I) are divided by the size b of that batch, and accounted for as a Gaussian mechanism
   of noise multiplier sigma: one example may move what is released by C / b, b the size by which the noise is divided.
   Doubt: that b is the size of the drawn batch is how the algorithm is printed; the released code divides by a fixed one. *)
From kernel Require Import definitions lemmas.

Definition clipped (C : R) (m : list bool) (gs : list vec) : list vec := map (fun g => clip C (mask m g)) gs.
Definition released (d : nat) (C : R) (m : list bool) (gs : list vec) : vec := average d (clipped C m gs).
Definition batch (d : nat) (gs : list vec) : Prop := gs <> [] /\ Forall (fun g => length g = d) gs.
Definition moved d C m (g : vec) gs : R := norm (sub (released d C m (g :: gs)) (released d C m gs)).
(* adding the example g moves the average by at most C / (b + 1), the sensitivity that the account takes; or by C / b, if it takes the other size *)
Definition printed : Prop := forall d C m g gs, 0 < C -> length m = d -> length g = d -> batch d gs ->
  moved d C m g gs <= C / INR (length (g :: gs)) \/ moved d C m g gs <= C / INR (length gs).
Definition correction : Prop := forall d C m g gs, 0 < C -> length m = d -> length g = d -> batch d gs ->
  moved d C m g gs <= 2 * C / INR (length (g :: gs)).

(* C = 1: the gradients C, C and, added, -C: the average moves by 2/3 *)
Lemma numbers : moved 1 1 [true] [-1] [[1]; [1]] = 2 / 3.
Proof.
  assert (n1 : norm [1] = 1) by norm_of. assert (n1' : norm [-1] = 1) by norm_of.
  unfold moved, released, clipped, average. cbn [map mask].
  rewrite !(clip_short 1 [1]), !(clip_short 1 [-1]) by lra.
  cbv [sub zip add scale map sum fold_right zero repeat length INR].
  match goal with |- norm [?a] = _ => replace a with (- (2 / 3)) by (simpl; field) end.
  norm_of.
Qed.
Theorem printed_is_false : ~ printed.
Proof.
  intro claim. specialize (claim 1%nat 1 [true] [-1] [[1]; [1]]).
  destruct claim as [h|h]; try lra; try reflexivity; try (split; [discriminate | repeat constructor]);
    rewrite numbers in h; simpl in h; lra.
Qed.
Lemma clipped_fine d C m gs : 0 <= C -> length m = d -> Forall (fun g => length g = d) gs ->
  Forall (fun v => length v = d /\ norm v <= C) (clipped C m gs).
Proof.
  intros C0 e F. unfold clipped. apply Forall_map. eapply Forall_impl; [|exact F]. simpl; intros g l.
  rewrite length_clip, length_mask by congruence. split; [exact l | apply norm_clip_le, C0].
Qed.
Lemma sub_scales_one n u S : n <> 0 -> n + 1 <> 0 -> length u = length S ->
  sub (scale (/ (n + 1)) (add u S)) (scale (/ n) S) = scale (/ (n + 1)) (sub u (scale (/ n) S)).
Proof.
  intros a b. revert S; induction u as [|x u IH]; intros [|y S] e; try discriminate; [reflexivity|].
  unfold sub, scale, add in *; simpl in *. rewrite IH by lia. f_equal. field; split; assumption.
Qed.
Theorem correction_holds : correction.
Proof.
  intros d C m g gs C0 em eg [ne F]. unfold moved, released, average.
  pose proof (clipped_fine d C m gs ltac:(lra) em F) as Fc. pose proof (clipped_fine d C m [g] ltac:(lra) em ltac:(repeat constructor; exact eg)) as Fg.
  apply Forall_inv in Fg. destruct Fg as [lg ng].
  assert (Fl : Forall (fun v => length v = d) (clipped C m gs)) by (eapply Forall_impl; [|exact Fc]; simpl; tauto).
  assert (n0 : 0 < INR (length (clipped C m gs))).
  { unfold clipped. rewrite map_length. destruct gs; [congruence|]. apply lt_0_INR; simpl; lia. }
  set (n := INR (length (clipped C m gs))) in *.
  assert (e1 : INR (length (clipped C m (g :: gs))) = n + 1) by (unfold n; rewrite <- S_INR; reflexivity).
  assert (e2 : INR (length (g :: gs)) = n + 1).
  { unfold n, clipped. rewrite map_length, <- S_INR. reflexivity. }
  rewrite e1, e2. change (clipped C m (g :: gs)) with (clip C (mask m g) :: clipped C m gs).
  change (sum d (clip C (mask m g) :: clipped C m gs)) with (add (clip C (mask m g)) (sum d (clipped C m gs))).
  rewrite sub_scales_one by (try lra; rewrite length_sum by exact Fl; exact lg).
  rewrite norm_scale, Rabs_pos_eq by (apply Rlt_le, Rinv_0_lt_compat; lra).
  assert (norm (scale (/ n) (sum d (clipped C m gs))) <= C).
  { rewrite norm_scale, Rabs_pos_eq by (apply Rlt_le, Rinv_0_lt_compat; lra).
    pose proof (norm_sum d _ C Fc) as h. fold n in h. apply (Rmult_le_reg_l n); [lra|]. rewrite <- Rmult_assoc, Rinv_r by lra. lra. }
  pose proof (norm_sub (clip C (mask m g)) (scale (/ n) (sum d (clipped C m gs)))) as t.
  rewrite length_scale, length_sum in t by exact Fl. specialize (t lg).
  unfold Rdiv. rewrite (Rmult_comm (2 * C)). apply Rmult_le_compat_l; [apply Rlt_le, Rinv_0_lt_compat; lra | lra].
Qed.
