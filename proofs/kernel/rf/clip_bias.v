(* rf.clip_bias: Differentially private SGD with sparse gradients (RF), anonymous submission under double-blind review: section 2.3.
   "As fewer dimensions contribute to the norm computation, random freeze reduces the clipping probability and therefore alleviates clipping bias (Zhang et al., 2020)."
   Doubt: the paper does not define the clipping bias. It is read as the norm of what clipping takes from the mean of the masked gradient, on average over the masks;
   that the clipping probability falls is right. *)
From kernel Require Import definitions lemmas.

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
