(* rs.as_tight: Zhu and Blaschko, Improving Differentially Private SGD via Randomly Sparsified Gradients (RS), the version with Lemma 3.3: section 3.3, text after eq. 15.
   At r = 0 the bound of Theorem 3.5 "recovers the convergence bound of vanilla DP-SGD [...], implying that our convergence bound over RS is as tight as before".
   That it recovers the bound at r = 0 is right. Refuted is the reading that the bound is as tight for r > 0 as for r = 0. *)
From kernel Require Import definitions lemmas.

(* Both bounds put C^2 for the second moment of a clipped gradient. As tight as before: where that is exact without a mask, it is exact with one. *)
Definition reading : Prop := forall d k C (p : law vec), (0 < k <= d)%nat -> 0 < C -> lawful p -> in_space d p ->
  E p (fun g => square (clip C g)) = C ^ 2 ->
  avg (masks d k) (fun m => E p (fun g => square (clip C (mask m g)))) = C ^ 2.
Definition correction : Prop := forall d k C (p : law vec), (0 < k <= d)%nat -> 0 < C -> lawful p -> in_space d p ->
  E p (fun g => square (clip C g)) = C ^ 2 ->
  share d k * C ^ 2 <= avg (masks d k) (fun m => E p (fun g => square (clip C (mask m g)))) <= C ^ 2.

(* four equal entries, one kept, C = 3, g = (3/2, 3/2, 3/2, 3/2): 9 without a mask, 9/4 with one *)
Definition even : law vec := [(1, [3 / 2; 3 / 2; 3 / 2; 3 / 2])].
Theorem reading_is_false : ~ reading.
Proof.
  intro claim. specialize (claim 4%nat 1%nat 3 even ltac:(lia) ltac:(lra) ltac:(lawful_by) ltac:(repeat constructor)).
  assert (s : forall m, In m (masks 4 1) -> E even (fun g => square (clip 3 (mask m g))) = 9 / 4).
  { intros m i. unfold E, even. cbn [map total fold_right fst snd].
    rewrite clip_short; [|eapply Rle_trans; [apply norm_mask|]; apply norm_le; unfold square, dot; simpl; lra].
    simpl in i. destruct i as [<-|[<-|[<-|[<-|[]]]]]; unfold square, dot; simpl; lra. }
  rewrite (avg_same _ _ (9 / 4)) in claim by (try discriminate; exact s).
  assert (e : E even (fun g => square (clip 3 g)) = 3 ^ 2).
  { unfold E, even. cbn [map total fold_right fst snd]. rewrite clip_short; [unfold square, dot; simpl; lra|].
    apply norm_le; unfold square, dot; simpl; lra. }
  specialize (claim e). lra.
Qed.
Theorem correction_holds : correction.
Proof.
  intros d k C p [k0 kd] C0 lp F e. split.
  - rewrite <- e. rewrite <- E_scale.
    apply Rle_trans with (E p (fun g => avg (masks d k) (fun m => square (mask m (clip C g))))).
    + right. unfold E. apply total_map_ext. eapply Forall_impl; [|exact F]. simpl; intros a l.
      rewrite masked_square; [reflexivity | lia | lia | rewrite length_clip; exact l].
    + replace (avg (masks d k) (fun m => E p (fun g => square (clip C (mask m g)))))
        with (E p (fun g => avg (masks d k) (fun m => square (clip C (mask m g))))).
      * apply E_le; [apply lp|]. intro g. apply avg_le, Forall_forall. intros m _.
        rewrite <- !norm_norm. pose proof (norm_masked_clip C m g C0). pose proof (norm_nonneg (mask m (clip C g))). nra.
      * unfold E. clear e F lp. induction p as [|[q g] p IH]; simpl; [unfold avg; rewrite total_constant; unfold Rdiv; ring|].
        rewrite avg_add, avg_scale. f_equal. exact IH.
  - rewrite <- (avg_constant (masks d k) (C ^ 2)) by (apply masks_some; exact kd). apply avg_le, Forall_forall. intros m _.
    rewrite <- (E_constant p (C ^ 2) lp) at 1. apply E_le; [apply lp|]. intro g. rewrite <- norm_norm.
    pose proof (norm_clip_le C (mask m g) ltac:(lra)). pose proof (norm_nonneg (clip C (mask m g))). nra.
Qed.
