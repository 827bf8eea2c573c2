(* rf.posterior: Differentially private SGD with sparse gradients (RF), anonymous submission under double-blind review: Appendix G (eq. 71 to 75).
   gbar = (1/B) sum m (.) clip(g_i) (posterior freeze), ghat = (1/B) sum clip(m (.) g_i) (random freeze): E |gbar|^2 <= E |ghat|^2. *)
From kernel Require Import definitions lemmas.

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
