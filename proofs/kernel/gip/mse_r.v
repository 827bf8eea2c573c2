(* gip.mse_r: Improving differentially-private deep learning with gradients index pruning (GIP), anonymous submission under double-blind review: Proposition 2 (eq. 7, 12, 13).
   MSE_r = E|g - g (.) I_r|^2 = (d - kd) sigma_g^2 for a uniformly random index set I_r with K = kd ones, under Assumption 1. *)
From kernel Require Import definitions lemmas.

Definition printed : Prop := forall (O : Type) (e : expectation O) (n : nat -> O -> R), unit_noise e n ->
  forall d K s, (0 < K <= d)%nat ->
  avg (masks d K) (fun I => ex e (fun o => let g := scale s (noise n d o) in square (sub g (mask I g)))) = (INR d - INR K) * s ^ 2.

Lemma out I g : length I = length g -> sub g (mask I g) = mask (map negb I) g.
Proof. revert g; induction I as [|b I IH]; intros [|a g] l; try discriminate; [reflexivity|]. unfold sub in *. simpl. rewrite IH by (simpl in l; lia).
  f_equal. destruct b; simpl; lra. Qed.
Lemma ones_out I : INR (ones (map negb I)) = INR (length I) - INR (ones I).
Proof. unfold ones. induction I as [|[] I IH]; simpl map; simpl count_occ; cbn [length]; rewrite ?S_INR, ?IH; simpl; lra. Qed.
Theorem printed_holds : printed.
Proof.
  intros O e n nz d K s [K0 Kd]. apply avg_same; [apply masks_some; exact Kd|]. intros I i. destruct (in_masks _ _ _ i) as [eI oI].
  pose proof (ex_noisy O e n nz d s (map negb I) (zero d) ltac:(rewrite map_length; exact eI) (length_zero d)) as h.
  rewrite ones_out, eI, oI in h. unfold square at 2 in h. rewrite dot_zero in h.
  rewrite (ex_ext e _ (fun o => square (add (zero d) (mask (map negb I) (scale s (noise n d o)))))); [rewrite h; ring|].
  intro o. cbv zeta. rewrite out by (rewrite length_scale, length_noise; exact eI).
  rewrite square_add, dot_zero by (rewrite length_zero, length_mask; rewrite length_scale, length_noise; rewrite ?map_length; congruence).
  unfold square at 2. rewrite dot_zero. ring.
Qed.
