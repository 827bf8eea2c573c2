(* gip.eq6: Improving differentially-private deep learning with gradients index pruning (GIP), anonymous submission under double-blind review: eq. 6.
   E|Z (.) I|^2 = sigma^2 C^2 k d for an index set I with K = k d ones and Z ~ N(0, sigma^2 C^2). *)
From kernel Require Import definitions lemmas.

Definition printed : Prop := forall (O : Type) (e : expectation O) (n : nat -> O -> R), unit_noise e n ->
  forall d K s I, In I (masks d K) -> ex e (fun o => square (mask I (scale s (noise n d o)))) = s ^ 2 * INR K.

Theorem printed_holds : printed.
Proof.
  intros O e n nz d K s I i. destruct (in_masks _ _ _ i) as [ei oi].
  pose proof (ex_noisy O e n nz d s I (zero d) ei (length_zero d)) as h. rewrite oi in h. unfold square at 2 in h. rewrite dot_zero in h.
  rewrite Rplus_0_l in h. rewrite <- h. apply ex_ext. intro o.
  rewrite square_add; [|rewrite length_zero, length_mask; rewrite length_scale, length_noise; congruence].
  rewrite dot_zero. unfold square at 2. rewrite dot_zero. ring.
Qed.
