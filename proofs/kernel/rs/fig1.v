(* rs.fig1: Zhu and Blaschko, Improving Differentially Private SGD via Randomly Sparsified Gradients (RS), the version with Lemma 3.3: section 1.1, item (ii) and Fig. 1d.
   "Due to gradient clipping, for the coordinates [...] that are relaxed, i.e. corresponding gradients are not zeroed out, their gradients have a higher magnitude than
   without RS"; Fig. 1d "demonstrates an empirical ratio of the gradient norm of relaxed coordinates with RS over without RS". Of each example's gradient it is right
   (`correction`). Refuted is the reading for the batch's averaged gradient, for every batch. *)
From kernel Require Import definitions lemmas.

Definition with_RS d C m (gs : list vec) : vec := average d (map (fun g => clip C (mask m g)) gs).
Definition without_RS d C m (gs : list vec) : vec := mask m (average d (map (clip C) gs)).     (* on the same coordinates *)
Definition reading : Prop := forall d C m gs, 0 < C -> length m = d -> gs <> [] -> Forall (fun g => length g = d) gs ->
  norm (without_RS d C m gs) <= norm (with_RS d C m gs).
(* true of one example, and the gain is at most |g| / |m (.) g| *)
Definition correction : Prop := forall d C m g, 0 < C -> length m = d -> length g = d ->
  norm (mask m (clip C g)) <= norm (clip C (mask m g)) /\
  norm (clip C (mask m g)) * norm (mask m g) <= norm (mask m (clip C g)) * norm g.

(* C = 1, mask (1, 0), gradients (1, 0) and (-5, 12): with RS the two cancel, without it 4/13 is left *)
Theorem reading_is_false : ~ reading.
Proof.
  intro claim. specialize (claim 2%nat 1 [true; false] [[1; 0]; [-5; 12]] ltac:(lra) eq_refl ltac:(discriminate) ltac:(repeat constructor)).
  unfold without_RS, with_RS, average in claim. cbn [map mask] in claim.
  revert claim. clips 1 [1; 0] 1 1. clips 1 [-5; 12] 13 (1 / 13). clips 1 [-5; 0] 5 (1 / 5).
  cbv [sum map fold_right add zip scale zero repeat length INR mask]. intro claim.
  match type of claim with norm ?u <= norm ?v => replace (norm u) with (4 / 13) in claim; [replace (norm v) with 0 in claim|] end; [lra| |].
  - symmetry. norm_of.
  - symmetry. norm_of.
Qed.
Theorem correction_holds : correction.
Proof.
  intros d C m g C0 em eg. split; [apply norm_masked_clip, C0|].
  rewrite norm_clip by lra. unfold clip. rewrite mask_scale, norm_scale.
  pose proof (norm_nonneg (mask m g)) as a. pose proof (norm_mask m g) as b.
  destruct (Req_dec (norm (mask m g)) 0) as [z|nz]; [rewrite z; lra|].
  assert (0 < C / norm g) by (apply Rdiv_lt_0_compat; lra). rewrite Rabs_pos_eq by (apply Rmin_glb; lra).
  replace (Rmin 1 (C / norm g) * norm (mask m g) * norm g) with (Rmin 1 (C / norm g) * norm g * norm (mask m g)) by ring.
  apply Rmult_le_compat_r; [exact a|].
  assert (e : Rmin 1 (C / norm g) * norm g = Rmin (norm g) C).
  { unfold Rmin. destruct (Rle_dec 1 (C / norm g)) as [l|l], (Rle_dec (norm g) C) as [l'|l']; try (field; lra).
    - assert (1 * norm g <= C / norm g * norm g) by (apply Rmult_le_compat_r; lra).
      replace (C / norm g * norm g) with C in H0 by (field; lra). lra.
    - assert (~ 1 <= C / norm g) by exact l. assert (C / norm g * norm g < 1 * norm g) by (apply Rmult_lt_compat_r; lra).
      replace (C / norm g * norm g) with C in H1 by (field; lra). lra. }
  rewrite e. apply Rmin_glb; [eapply Rle_trans; [apply Rmin_l | exact b] | apply Rmin_r].
Qed.
