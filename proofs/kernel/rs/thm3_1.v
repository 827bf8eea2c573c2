(* rs.thm3.1: Zhu and Blaschko, Improving Differentially Private SGD via Randomly Sparsified Gradients (RS), the version with Lemma 3.3: Theorem 3.1; RF, section 3.
   If sum clip(g(x)) + N(0, C^2 sigma^2 I) satisfies (eps, delta)-DP, so does sum clip(m (.) g(x)) + m (.) N(0, C^2 sigma^2 I).
   Only a part of it is stated: with the mask no example adds more to the sum than without it, at most C, and the sum moves by no more. That a Gaussian mechanism is as
   private at a smaller shift is not: this file has no Gaussian law. *)
From kernel Require Import definitions lemmas.

Definition summed (d : nat) (C : R) (m : list bool) (gs : list vec) : vec := sum d (map (fun g => clip C (mask m g)) gs).
Definition unmasked (d : nat) (C : R) (gs : list vec) : vec := sum d (map (clip C) gs).
(* one example added, with any mask *)
Definition part : Prop := forall d k C m g gs, 0 < C -> In m (masks d k) -> Forall (fun g => length g = d) (g :: gs) ->
  norm (sub (summed d C m (g :: gs)) (summed d C m gs)) <= norm (sub (unmasked d C (g :: gs)) (unmasked d C gs)) <= C.
(* and 2C under replacing one *)
Definition correction : Prop := forall d k C m g g' gs, 0 < C -> In m (masks d k) -> Forall (fun g => length g = d) (g :: g' :: gs) ->
  norm (sub (summed d C m (g :: gs)) (summed d C m (g' :: gs))) <= 2 * C.

Lemma fine d k C m gs : 0 < C -> In m (masks d k) -> Forall (fun g => length g = d) gs ->
  Forall (fun v => length v = d) (map (fun g => clip C (mask m g)) gs).
Proof.
  intros C0 i F. destruct (in_masks _ _ _ i) as [em _]. apply Forall_map. eapply Forall_impl; [|exact F]. simpl; intros.
  rewrite length_clip, length_mask; congruence.
Qed.
Lemma shorter C m g : 0 < C -> norm (clip C (mask m g)) <= norm (clip C g).
Proof. intro C0. rewrite !norm_clip by lra. pose proof (norm_mask m g). apply Rmin_glb; [eapply Rle_trans; [apply Rmin_l | assumption] | apply Rmin_r]. Qed.
Theorem part_holds : part.
Proof.
  intros d k C m g gs C0 i F. pose proof (fine d k C m _ C0 i F) as Fc. cbn [map] in Fc.
  pose proof (Forall_inv Fc) as l1. pose proof (Forall_inv_tail Fc) as Fc'. simpl in l1. pose proof (Forall_inv F) as lg.
  assert (Fu : Forall (fun v => length v = d) (map (clip C) gs)).
  { apply Forall_map. eapply Forall_impl; [|apply (Forall_inv_tail F)]. simpl; intros. rewrite length_clip. assumption. }
  unfold summed, unmasked. cbn [map]. unfold sum. cbn [fold_right]. rewrite !sub_same.
  - split; [apply shorter, C0 | apply norm_clip_le; lra].
  - rewrite length_clip, lg. symmetry. apply (length_sum d), Fu.
  - rewrite l1. symmetry. apply (length_sum d), Fc'.
Qed.
Theorem correction_holds : correction.
Proof.
  intros d k C m g g' gs C0 i F. pose proof (fine d k C m _ C0 i F) as Fc. cbn [map] in Fc.
  pose proof (Forall_inv Fc) as l1. pose proof (Forall_inv (Forall_inv_tail Fc)) as l2. pose proof (Forall_inv_tail (Forall_inv_tail Fc)) as Fc'.
  simpl in l1, l2. unfold summed. cbn [map]. unfold sum. cbn [fold_right].
  pose proof (length_sum d _ Fc') as ls. unfold sum in ls. rewrite sub_both by congruence.
  eapply Rle_trans; [apply norm_sub; congruence|].
  pose proof (norm_clip_le C (mask m g) ltac:(lra)). pose proof (norm_clip_le C (mask m g') ltac:(lra)). lra.
Qed.
